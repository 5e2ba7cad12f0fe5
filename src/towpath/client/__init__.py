"""The client of a gateway: files in, results out, whatever breaks in between.

Needs the standard library, errors, the clock and crash points only, so that it starts at once.

How a file gets in, and what a crash between any two acts leaves:

1. A state file is written (by rename) with a new id for the upload. Nothing else has happened.
2. The upload is opened with that id: asked again, it is the same upload.
3. The state file says that it is open. Killed before, 2 is asked again and answered the same.
4. Each sender asks for a session and for how far the server has it, and compares the server's crc32 with its file's:
   another file under the old name is noticed before a byte of it is sent.
5. Chunks are sent from there. A chunk whose answer was lost is sent again, and the server takes nothing of it twice.
6. Each sender says how many bytes there were, and their crc32; the server refuses when it has others.

And how results get out (`receiver.py`):

1. Rows behind the cursor are asked for and appended to a file, which is synced.
2. The state file gets the file's length and the cursor behind the rows, by rename. Killed before, the next one cuts the
   file back to the length that the state knows, and asks for the same rows.
3. The cursor is acknowledged: the server may forget the rows. Killed before, it is acknowledged again.
"""

from towpath.client.client import Client
from towpath.client.protocol import NewSender, Result, RowsPage, SenderPosition, Session, Upload
from towpath.client.sender import Sent
from towpath.client.sources import FileSource

__all__ = ["Client", "FileSource", "NewSender", "Result", "RowsPage", "SenderPosition", "Sent", "Session", "Upload"]
