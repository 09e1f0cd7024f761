"""Go, Rust, Kotlin, Swift, Scala, Dart, Protobuf, GraphQL: languages with a keyword before each definition."""

from argosy.search.symbols import lexical_rules
from argosy.search.symbols.grammar import NAME, OWNER, Grammar, Nest, each, grammar
from argosy.search.symbols.lexical_rules import (
    CLASS,
    CONSTANTS,
    ENUM,
    IMPLEMENTATION,
    INTERFACE,
    NAMESPACE,
    OBJECT,
    OPAQUE,
    SERVICE,
    STRUCT,
    TOP,
    TRAIT,
    TYPES,
    UNION,
    VARIABLES,
    words,
)
from argosy.search.symbols.outline import (
    ANGLES,
    ANNOTATIONS,
    BANG_BLOCKS,
    BASES,
    BRACKETS,
    DIRECTIVES,
    FIRST,
    GROUPS,
    NAMED,
    NEWLINES,
    PARENS,
    VALUES,
)

_TYPE_ARGUMENTS = rb"(?:\[[^\]\n]*\])?"

_GO_ENTRY = {STRUCT: "field", VARIABLES: "variable"}

GO = grammar(
    (rb"^func[ \t]*\([ \t]*(?:%[ \t]+)?\*?[ \t]*(%)" + _TYPE_ARGUMENTS + rb"[ \t]*\)[ \t]*(%)", OWNER, "method"),
    (rb"^func[ \t]+(%)", "function"),
    (rb"^package[ \t]+(%)", "package"),
    (rb"^type[ \t]+(%)" + _TYPE_ARGUMENTS + rb"[ \t]+struct\b", "struct"),
    (rb"^type[ \t]+(%)" + _TYPE_ARGUMENTS + rb"[ \t]+interface\b", "interface"),
    (rb"^type[ \t]+(%)" + _TYPE_ARGUMENTS + rb"[ \t]*=", "alias"),
    (rb"^type[ \t]+(%)", "type"),
    (rb"^const[ \t]+(%)", "constant"),
    (rb"^var[ \t]+(%)", "variable"),
    (rb"(?:^[ \t]+|\{[ \t]*)\*?(?:%\.)?(%)" + _TYPE_ARGUMENTS
     + rb"(?:([ \t]+struct\b)|([ \t]+interface\b)|([ \t]*\()|(\W))", NAME,
     {TYPES: "struct", **_GO_ENTRY}, {TYPES: "interface", **_GO_ENTRY}, {INTERFACE: "method spec"},
     {TYPES: "type", CONSTANTS: "constant", **_GO_ENTRY}),
    (rb",[ \t]*(%)", {STRUCT: "field"}),
    lexical=lexical_rules.GO, nest=Nest.OUTLINE, reads=PARENS | BRACKETS | NEWLINES | GROUPS,
    words=words({
        STRUCT: "struct", INTERFACE: "interface", OPAQUE: "func", CONSTANTS: "const", VARIABLES: "var", TYPES: "type"
    }),
    # The blank identifier.
    reserved="_",
)  # fmt: skip

_RUST_OUTSIDE = (TOP, NAMESPACE)
RUST = grammar(
    (rb"\bfn\s+(?:r#)?(%)", {**each("function", _RUST_OUTSIDE), **each("method", (IMPLEMENTATION, TRAIT))}),
    (rb"\bstruct\s+(?:r#)?(%)", "struct"),
    (rb"\benum\s+(?:r#)?(%)", "enum"),
    (rb"\bunion\s+(%)\s*(?:<\s*>\s*)?\{", "union"),
    (rb"\btrait\s+(%)", "trait"),
    (rb"\bmod\s+(%)", "module"),
    (rb"\btype\s+(%)", "type"),
    (rb"\bmacro_rules!\s*(%)", "macro"),
    (rb"\bmacro\s+(%)", "macro"),
    (rb"\bimpl\b(?:\s*<\s*>)?\s+[^{};]*?\bfor\s+[&*(\[\s]*(?:'\w+\s+)?(?:(?:mut|const|dyn)\s+)*(?:%\s*::\s*)*(%)",
     "implementation"),
    (rb"\bimpl\b(?:\s*<\s*>)?\s+(?:dyn\s+)?(?:%\s*::\s*)*(%)", "implementation"),
    (rb"\bconst\s+(%)\s*:", "constant"),
    (rb"\bstatic\s+(?:mut\s+)?(?:ref\s+)?(%)\s*:", "variable"),
    # An import defines nothing.
    (rb"\buse\b[^;]*;",),
    # A return type defines nothing, nor do the bounds after it.
    (rb"->[^{};]*",),
    (rb"(%)\s*:[^:]", each("field", (STRUCT, UNION))),
    (rb"(%)\s*(?:\(\s*\)\s*)?(?:\{\s*\}\s*)?[,}=]", {ENUM: "enumerator"}),
    lexical=lexical_rules.RUST, nest=Nest.OUTLINE, reads=PARENS | ANGLES | VALUES | FIRST | BANG_BLOCKS,
    words=words({
        STRUCT: "struct", ENUM: "enum", UNION: "union", TRAIT: "trait", IMPLEMENTATION: "impl",
        NAMESPACE: "mod extern", OPAQUE: "fn macro_rules macro",
    }),
    reserved="pub crate fn mut ref in",
)  # fmt: skip

_BODIED = (CLASS, STRUCT, ENUM, INTERFACE, OBJECT, TRAIT, IMPLEMENTATION)
_METHOD = {**each("function", (TOP, NAMESPACE)), **each("method", _BODIED)}
_PROPERTY = {**each("variable", (TOP, NAMESPACE)), **each("property", _BODIED)}

KOTLIN = grammar(
    (rb"\bfun\s+interface\s+(%)", "interface"),
    (rb"\bfun\s+(?:<\s*>\s*)?(?:%(?:\s*<\s*>)?\??\.)*(%)\s*\(", _METHOD),
    (rb"\benum\s+class\s+(%)", "enum"),
    (rb"\bannotation\s+class\s+(%)", "annotation"),
    (rb"\bclass\s+(%)", "class"),
    (rb"\binterface\s+(%)", "interface"),
    (rb"\bobject\s+(%)", "object"),
    (rb"\btypealias\s+(%)", "alias"),
    (rb"^package\s+([\w.]+)", "package"),
    (rb"\bconst\s+val\s+(%)", "constant"),
    (rb"\b(?:val|var)\s+(?:<\s*>\s*)?(?:%(?:\s*<\s*>)?\??\.)*(%)", _PROPERTY),
    (rb"(%)\s*(?:\(\s*\)\s*)?(?:\{\s*\}\s*)?[,;}]", {ENUM: "enumerator"}),
    lexical=lexical_rules.KOTLIN, nest=Nest.OUTLINE, reads=PARENS | ANGLES | ANNOTATIONS | BASES,
    words=words({
        CLASS: "class", INTERFACE: "interface", ENUM: "enum", OBJECT: "object",
        OPAQUE: "fun val var init constructor get set",
    }),
)  # fmt: skip

SWIFT = grammar(
    (rb"\b(?:class\s+)?func\s+(%|[^\s\w(<]+)", _METHOD),
    (rb"\b(?:class\s+)?(?:let|var)\s+(%)", _PROPERTY),
    (rb"\b(init)\b[?!]?\s*(?:<\s*>\s*)?\(", each("constructor", _BODIED)),
    (rb"\bclass\s+(%)", "class"),
    (rb"\bactor\s+(%)", "class"),
    (rb"\bstruct\s+(%)", "struct"),
    (rb"\benum\s+(%)", "enum"),
    (rb"\bprotocol\s+(%)", "protocol"),
    (rb"\bextension\s+(?:%\.)*(%)", "extension"),
    (rb"\b(?:typealias|associatedtype)\s+(%)", "alias"),
    (rb"\b(?:indirect\s+)?case\s+(%)", {ENUM: "enumerator"}),
    (rb",\s*(%)", {ENUM: "enumerator"}),
    lexical=lexical_rules.SWIFT, nest=Nest.OUTLINE, reads=PARENS | ANGLES | ANNOTATIONS | BASES | DIRECTIVES | BRACKETS,
    words=words({
        CLASS: "class actor", STRUCT: "struct", ENUM: "enum", INTERFACE: "protocol", IMPLEMENTATION: "extension",
        OPAQUE: "func var let init deinit subscript get set willSet didSet case",
    }),
)  # fmt: skip

# Scala 3 allows code without braces, so nesting is by indentation, which formatted Scala 2 has too.
_SCALA_LINE = rb"^[ \t]*(?:(?:\w+(?:\[\w+\])?|@%(?:\([^)\n]*\))?)[ \t]+)*?"
SCALA = grammar(
    (_SCALA_LINE + rb"def[ \t]+(%|[^\s\w(\[:=]+)", "function"),
    (_SCALA_LINE + rb"case[ \t]+class[ \t]+(%)", "class"),
    (_SCALA_LINE + rb"class[ \t]+(%)", "class"),
    (_SCALA_LINE + rb"trait[ \t]+(%)", "trait"),
    (_SCALA_LINE + rb"object[ \t]+(%)", "object"),
    (_SCALA_LINE + rb"enum[ \t]+(%)", "enum"),
    (_SCALA_LINE + rb"type[ \t]+(%)", "type"),
    (_SCALA_LINE + rb"(?:val|var)[ \t]+(%)", "variable"),
    (rb"^[ \t]*given[ \t]+(%)[ \t]*(?:\[[^\]\n]*\])?(?:\([^)\n]*\))?:", "instance"),
    (rb"^package[ \t]+([\w.]+)", "package"),
    (rb"^[ \t]+case[ \t]+(%)[ \t]*(?:\([^=\n]*)?(?:extends\b.*)?(?:,.*)?$", "enumerator"),
    lexical=lexical_rules.KOTLIN, nest=Nest.INDENT,
    inner={
        "function": dict.fromkeys(("class", "trait", "object", "enum", "instance"), "method"),
        "variable": {"function": "", "method": "", "variable": ""},
        "enumerator": {"function": "", "method": "", "variable": "", "class": "", "object": "", "trait": ""},
    },
)  # fmt: skip

DART = grammar(
    (rb"\bclass\s+(%)", "class"),
    (rb"\bmixin\s+(?:class\s+)?(%)", "trait"),
    (rb"\bextension\s+(?:type\s+)?(%)\s+on\b", "extension"),
    (rb"\benum\s+(%)", "enum"),
    (rb"\btypedef\s+(?:[^;={}()]*?\s)?(%)\s*(?:<\s*>\s*)?[=(]", "type"),
    # Base types are skipped: followed by a comma or a brace they look like definitions.
    (rb"\b(?:extends|implements|with|on)\b[^;{}()]*\{",),
    (rb"\b(?:import|export|part|library)\b[^;{}]*;",),
    (rb"\bget\s+(%)\s*(?:async\*?\s*)?[{=]", each("accessor", (TOP, *_BODIED))),
    (rb"(%)\s*(?:<\s*>\s*)?\(\s*\)\s*(?:async\*?\s*|sync\*\s*)?(?::[^;{}]*)?[{=]", _METHOD),
    (rb"[\w>\]?]\s+(%)\s*[;,=]", {**each("variable", (TOP,)), **each("field", _BODIED)}),
    (rb"(%)\s*(?:\(\s*\)\s*)?[,;}]", {ENUM: "enumerator"}),
    lexical=lexical_rules.DART, nest=Nest.OUTLINE, reads=PARENS | ANGLES | ANNOTATIONS | NAMED,
    words=words({CLASS: "class mixin", ENUM: "enum", IMPLEMENTATION: "extension"}),
    reserved="if for while switch return assert super this",
)  # fmt: skip

PROTOBUF = grammar(
    (rb"\bmessage\s+(%)\s*\{", "message"),
    (rb"\benum\s+(%)\s*\{", "enum"),
    (rb"\bservice\s+(%)\s*\{", "service"),
    (rb"\boneof\s+(%)\s*\{", "union"),
    (rb"\brpc\s+(%)\s*\(", "rpc"),
    (rb"^\s*package\s+([\w.]+)\s*;", "package"),
    # Options are assignments, as fields are.
    (rb"\b(?:option|import|reserved|extensions|syntax)\b[^;{}]*;",),
    (rb"[\w>.]\s+(%)\s*=", {STRUCT: "field"}),
    (rb"(%)\s*=", {ENUM: "enumerator"}),
    # The comments and strings of a Protobuf file are those of JavaScript.
    lexical=lexical_rules.JAVASCRIPT, nest=Nest.OUTLINE, reads=PARENS | ANGLES | VALUES | NAMED,
    words=words({STRUCT: "message oneof extend group", ENUM: "enum", SERVICE: "service"}),
)  # fmt: skip

GRAPHQL = grammar(
    (rb"^[ \t]*(?:extend[ \t]+)?type[ \t]+(%)", "type"),
    (rb"^[ \t]*(?:extend[ \t]+)?interface[ \t]+(%)", "interface"),
    (rb"^[ \t]*(?:extend[ \t]+)?enum[ \t]+(%)", "enum"),
    (rb"^[ \t]*(?:extend[ \t]+)?input[ \t]+(%)", "struct"),
    (rb"^[ \t]*(?:extend[ \t]+)?union[ \t]+(%)", "union"),
    (rb"^[ \t]*scalar[ \t]+(%)", "alias"),
    (rb"^[ \t]*directive[ \t]+@(%)", "annotation"),
    (rb"^[ \t]*fragment[ \t]+(%)", "other"),
    (rb"^[ \t]*(?:query|mutation|subscription)[ \t]+(%)", "function"),
    (rb"^[ \t]*(%)[ \t]*(?:\(|:)", each("field", (CLASS, INTERFACE, STRUCT))),
    (rb"^[ \t]*(%)[ \t\r]*$", {ENUM: "enumerator"}),
    # GraphQL has `#` comments and triple quotes, as Python has.
    lexical=lexical_rules.PYTHON, nest=Nest.OUTLINE, reads=PARENS | NAMED,
    words=words({CLASS: "type", INTERFACE: "interface", STRUCT: "input", ENUM: "enum"}),
)  # fmt: skip

GRAMMARS: dict[str, Grammar] = {
    "Go": GO, "Rust": RUST, "Kotlin": KOTLIN, "Gradle Kotlin DSL": KOTLIN, "Swift": SWIFT, "Scala": SCALA, "Dart": DART,
    "Protocol Buffer": PROTOBUF, "GraphQL": GRAPHQL,
}  # fmt: skip
