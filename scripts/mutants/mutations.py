"""Small faults in a source text, each a change of one place.

Operators, comparisons, conditions, numbers, texts, entries of tables, arguments, returns and statements are changed.
Left alone is what no test is to hold: types, docstrings, decorators, imports, f-strings (messages to people; their
places are not told in Python 3.11) and what an exception is raised with.
"""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from itertools import pairwise

_COMPARED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_COMPARED |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_CALCULATED = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "*", "%": "*", "**": "*", "<<": ">>", ">>": "<<"}
_CALCULATED |= {"&": "|", "|": "&", "^": "&"}
_JOINED = {"and": "or", "or": "and"}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_SIGN = re.compile(r"is\s+not|not\s+in|\*\*|//|<<|>>|<=|>=|==|!=|\b(?:is|in|and|or)\b|[-+*/%&|^<>]")
_COMMENT = re.compile(r"#[^\n]*")


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: what stands from `start` to `stop` becomes something else."""

    start: int
    stop: int
    before: str
    after: str
    line: int
    code: str  # the line as it stands, without its indentation

    @property
    def change(self) -> str:
        before, after = (" ".join(text.split()) or "nothing" for text in (self.before, self.after))
        return f"{before} → {after}"

    def applied(self, source: str) -> str:
        return source[: self.start] + self.after + source[self.stop :]

    def diff(self, source: str, path: str) -> str:
        lines = source.splitlines(keepends=True), self.applied(source).splitlines(keepends=True)
        return "".join(difflib.unified_diff(*lines, path, path, n=1))


def mutations_of(source: str, without: frozenset[str] = frozenset()) -> list[Mutation]:
    """All of them in the order of their places, each text once; definitions of the names `without` are left alone."""
    finder = _Finder(source)
    tree = ast.parse(source)
    tree.body = [each for each in tree.body if without.isdisjoint(_defined(each))]
    finder.visit(tree)
    found = {(each.start, each.stop, each.after): each for each in finder.found}
    return [found[place] for place in sorted(found)]


def _defined(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module gives to something."""
    match statement:
        case ast.ClassDef() | ast.FunctionDef():
            return {statement.name}
        case ast.Assign():
            return {node.id for each in statement.targets for node in ast.walk(each) if isinstance(node, ast.Name)}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
    return set()


class _Finder(ast.NodeVisitor):
    def __init__(self, source: str) -> None:
        self.found: list[Mutation] = []
        self._source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    # Places

    def _at(self, line: int, column: int) -> int:
        """Columns of the syntax tree are bytes of UTF-8."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.expr | ast.stmt | ast.pattern | ast.keyword) -> tuple[int, int]:
        assert node.end_lineno is not None  # noqa: S101
        assert node.end_col_offset is not None  # noqa: S101
        return self._at(node.lineno, node.col_offset), self._at(node.end_lineno, node.end_col_offset)

    def _change(self, start: int, stop: int, after: str) -> None:
        line = self._source.count("\n", 0, start) + 1
        self.found.append(Mutation(start, stop, self._source[start:stop], after, line, self._lines[line - 1].strip()))

    def _replace(self, node: ast.expr | ast.stmt, *texts: str) -> None:
        for text in texts:
            self._change(*self._span(node), text)

    def _swap_between(self, left: ast.expr, right: ast.expr, swaps: dict[str, str]) -> None:
        """The operator between two operands."""
        start, stop = self._span(left)[1], self._span(right)[0]
        between = _COMMENT.sub(lambda found: " " * len(found[0]), self._source[start:stop])
        sign = _SIGN.search(between)
        if sign is not None and (after := swaps.get(" ".join(sign[0].split()))) is not None:
            self._change(start + sign.start(), start + sign.end(), after)

    def _drop_each(self, entries: list[tuple[int, int]]) -> None:
        """One entry of several, with the comma behind it."""
        for start, stop in entries:
            comma = re.compile(r"[\s)]*,\s*").match(self._source, stop)
            has_bracket = comma is not None and ")" in comma[0]
            self._change(start, comma.end() if comma and not has_bracket else stop, "")

    # What is left alone

    def visit_Import(self, node: ast.Import) -> None: ...
    def visit_ImportFrom(self, node: ast.ImportFrom) -> None: ...
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None: ...
    def visit_Global(self, node: ast.Global) -> None: ...

    def visit_Raise(self, node: ast.Raise) -> None:
        self._replace(node, "pass")

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        is_type = isinstance(node.value, ast.Subscript | ast.BinOp) and _is_type(node.value)
        is_exports = any(isinstance(each, ast.Name) and each.id == "__all__" for each in node.targets)
        if is_type or is_exports:
            return
        if any(isinstance(each, ast.Attribute | ast.Subscript) for each in node.targets):
            self._replace(node, "pass")
        self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        self._visit_body(node.body)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_body(node.body)

    def visit_Module(self, node: ast.Module) -> None:
        self._visit_body(node.body)

    def _visit_body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            if not is_text:  # a docstring, or `...`
                self.visit(statement)

    # What is changed

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in pairwise([node.left, *node.comparators]):
            self._swap_between(left, right, _COMPARED)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        self._swap_between(node.left, node.right, _CALCULATED)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in pairwise(node.values):
            self._swap_between(left, right, _JOINED)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        start, stop = self._span(node)[0], self._span(node.operand)[0]
        self._change(start, stop, "(" * self._source[start:stop].count("("))
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        start, stop = self._span(node.target)[1], self._span(node.value)[0]
        sign = self._source[start:stop].split("=")[0].strip()
        place = self._source.index(sign, start)
        self._change(place, place + len(sign), _CALCULATED[sign])
        self._replace(node, "pass")
        self.visit(node.value)

    def visit_Constant(self, node: ast.Constant) -> None:
        match node.value:
            case bool():
                self._replace(node, str(not node.value))
            case int() | float():
                self._replace(node, repr(node.value + 1))
            case str():
                self._replace(node, repr(f"{node.value}X"))
            case bytes():
                self._replace(node, repr(node.value + b"X"))

    def visit_If(self, node: ast.If) -> None:
        self._replace(node.test, "True", "False")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._replace(node.test, "True", "False")
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._replace(node.test, "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._replace(test, "True", "False")
        self.generic_visit(node)

    def visit_match_case(self, node: ast.match_case) -> None:
        if node.guard is None:
            stop = self._span(node.pattern)[1]
            self._change(stop, self._source.index(":", stop), " if False")
            self._visit_body(node.body)
        else:
            self._replace(node.guard, "True", "False")
            self.visit(node.guard)
            self._visit_body(node.body)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is None:
            return
        is_as_good = isinstance(node.value, ast.Constant) and (node.value.value is None or node.value.value is False)
        if not is_as_good:
            self._replace(node.value, "None")
        self.visit(node.value)

    def visit_Expr(self, node: ast.Expr) -> None:
        self._replace(node, "yield" if isinstance(node.value, ast.Yield | ast.YieldFrom) else "pass")
        self.visit(node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        self._replace(node, "pass")

    def visit_Break(self, node: ast.Break) -> None:
        self._replace(node, "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._replace(node, "break")

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in _CALLED:
            self._replace(node.func, _CALLED[node.func.id])
        self._drop_each([self._span(each) for each in node.keywords])
        is_check = isinstance(node.func, ast.Name) and node.func.id in ("isinstance", "issubclass", "cast", "TypeVar")
        for argument in () if is_check else (*node.args, *node.keywords):
            self.visit(argument)
        self.visit(node.func)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.visit(node.value)
        if not isinstance(node.slice, ast.Tuple):
            self.visit(node.slice)

    def visit_Tuple(self, node: ast.Tuple) -> None:
        if not isinstance(node.ctx, ast.Load):
            return
        spans = [self._span(each) for each in node.elts]
        if len(spans) == 2:  # without its comma, what is left would be no tuple
            first, second = (self._source[start:stop] for start, stop in spans)
            self._replace(node, f"({second},)", f"({first},)")
        elif len(spans) > 2:
            self._drop_each(spans)
        self.generic_visit(node)

    def visit_List(self, node: ast.List) -> None:
        if isinstance(node.ctx, ast.Load):
            self._drop_each([self._span(each) for each in node.elts])
            self.generic_visit(node)

    def visit_Set(self, node: ast.Set) -> None:
        self._drop_each([self._span(each) for each in node.elts] if len(node.elts) > 1 else [])
        self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> None:
        entries = [(key or value, value) for key, value in zip(node.keys, node.values, strict=True)]
        stars = [2 if key is None else 0 for key in node.keys]
        self._drop_each(
            [
                (self._span(first)[0] - star, self._span(last)[1])
                for (first, last), star in zip(entries, stars, strict=True)
            ]
        )
        self.generic_visit(node)


def _is_type(node: ast.expr) -> bool:
    """A name for a type, as in `Test = Callable[[Get], bool]` or `Then = Isolate | Ignore`: all names begin large."""
    match node:
        case ast.Subscript():
            return _is_type(node.value)
        case ast.BinOp(op=ast.BitOr()):
            return _is_type(node.left) and _is_type(node.right)
        case ast.Name(id=name):
            return (name[:1].isupper() and not name.isupper()) or name in ("tuple", "list", "dict", "set", "frozenset")
    return False
