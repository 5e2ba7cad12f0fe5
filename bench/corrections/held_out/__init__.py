"""Data sets that no constant was chosen on: the printed figures come from these."""

from bench.corrections.data_set import DataSet
from bench.corrections.held_out.addresses import Addresses
from bench.corrections.held_out.catalogue import Catalogue
from bench.corrections.held_out.invoices import Invoices

DATA_SETS: tuple[type[DataSet], ...] = (Addresses, Catalogue, Invoices)
