"""The category of a file, for ranking: test, vendored, generated, documentation, configuration.

It is detected from the directories and the name, which takes about a microsecond; generated files also from their first
lines. A file can have several: a vendored test is both.
"""

import re

from argosy.search.documents import Category

HEAD_BYTES = 1024  # generators leave their mark at the top
MINIFIED_LINE_BYTES = 300  # hand-written scripts and style sheets average below 60 bytes per line

_TEST, _VENDORED, _GENERATED, _DOCUMENTATION, _CONFIGURATION = (
    int(each)
    for each in (Category.TEST, Category.VENDORED, Category.GENERATED, Category.DOCUMENTATION, Category.CONFIGURATION)
)
# Combining IntFlags with `|` runs much Python code per file; an index into this tuple does not.
_CATEGORIES = tuple(Category(number) for number in range(32))

# Names are looked up in dictionaries, because every file of a build is classified; a regular expression would be
# slower.
_FOLDERS: dict[bytes, int] = {}
_NAMES: dict[bytes, int] = {}
_EXTENSIONS: dict[bytes, int] = {}


def _add_words(table: dict[bytes, int], category: int, words: str) -> None:
    for word in words.split():
        table[word.encode()] = table.get(word.encode(), 0) | category


_add_words(
    _FOLDERS,
    _TEST,
    """
    test tests testing testdata test-data test_data testcases testsuite testsuites __tests__ __mocks__ __fixtures__
    __snapshots__ spec specs fixtures mocks e2e unittest unittests selftests selftest
    integration_tests integration-tests androidtest jvmtest commontest kunit cypress
""",
)
_add_words(
    _FOLDERS,
    _VENDORED,
    """
    vendor vendors vendored _vendor node_modules bower_components jspm_packages third_party third-party thirdparty
    3rdparty 3rd_party godeps extern externals site-packages dist-packages carthage pods .yarn .venv venv
    web_modules .mvn cpan
""",
)
_add_words(_FOLDERS, _GENERATED, "generated __generated__ generated-sources .next .nuxt __pycache__ autogen")
_add_words(_FOLDERS, _DOCUMENTATION, "doc docs documentation man manpages javadoc examples example samples demos")
_add_words(_FOLDERS, _CONFIGURATION, ".github .circleci .vscode .idea .gitlab .devcontainer .husky")

_add_words(
    _NAMES,
    _GENERATED,
    """
    package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock bun.lockb cargo.lock go.sum go.work.sum
    gemfile.lock poetry.lock uv.lock pdm.lock pipfile.lock pixi.lock composer.lock mix.lock rebar.lock podfile.lock
    flake.lock deno.lock gopkg.lock glide.lock packages.lock.json paket.lock pubspec.lock package.resolved conan.lock
    manifest.toml stack.yaml.lock .terraform.lock.hcl
""",
)
_add_words(
    _NAMES, _VENDORED, "gradlew gradlew.bat mvnw mvnw.cmd config.guess config.sub aclocal.m4 libtool.m4 ltmain.sh"
)
_add_words(_NAMES, _TEST, "conftest.py")
_add_words(
    _NAMES,
    _DOCUMENTATION,
    """
    readme license licence copying notice authors contributors maintainers changelog changes history news install
    contributing code_of_conduct security credits todo faq
""",
)
_add_words(
    _NAMES,
    _CONFIGURATION,
    """
    package.json tsconfig.json jsconfig.json pyproject.toml setup.cfg tox.ini cargo.toml go.mod pom.xml composer.json
    .editorconfig .gitignore .gitattributes .gitmodules .dockerignore .npmrc .nvmrc .babelrc .eslintrc .prettierrc
    .clang-format .clang-tidy .travis.yml .gitlab-ci.yml codeowners
""",
)

_add_words(_EXTENSIONS, _DOCUMENTATION, "md markdown mdx rst adoc asciidoc txt org textile rdoc pod tex")
_add_words(_EXTENSIONS, _CONFIGURATION, "yml yaml toml ini cfg conf properties json jsonc json5 env plist editorconfig")
_add_words(_EXTENSIONS, _GENERATED, "map snap lock")

# Ends and beginnings are tuples, because `endswith` tests a whole tuple in C.
_TEST_ENDS = (
    b"_test.go", b"_test.py", b"_test.rb", b"_test.exs", b"_test.dart", b"_test.cc", b"_test.cpp", b"_test.c",
    b"_test.rs", b"_tests.rs", b"_test.js", b"_test.ts", b"_test.clj", b"_spec.rb", b"_spec.lua", b"_spec.js",
    b"_unittest.cc", b"_unittest.cpp", b"_unittest.py", b"test.java", b"tests.java", b"testcase.java", b"test.kt",
    b"tests.kt", b"test.scala", b"spec.scala", b"test.php", b"tests.cs", b"test.cs", b"tests.swift", b"test.swift",
    b"test.groovy", b"spec.groovy", b"spec.hs", b".test.js", b".test.ts", b".test.jsx", b".test.tsx", b".test.mjs",
    b".spec.js", b".spec.ts", b".spec.jsx", b".spec.tsx", b".spec.mjs", b".cy.js", b".cy.ts", b".bats", b".feature",
)  # fmt: skip
_GENERATED_ENDS = (
    b".pb.go", b".pb.cc", b".pb.h", b".pb.swift", b".pb.gw.go", b"_pb2.py", b"_pb2.pyi", b"_pb2_grpc.py", b"_pb.js",
    b"_pb.ts", b"_pb.d.ts", b"_grpc_pb.js", b".pbobjc.h", b".pbobjc.m", b".pbandk.kt", b".g.dart", b".freezed.dart",
    b"_generated.go", b".gen.go", b"_gen.go", b".generated.cs", b".generated.ts", b".designer.cs", b".g.cs",
    b".min.js", b".min.mjs", b".min.css", b"-min.js", b".bundle.js", b".js.map", b".css.map", b"_string.go",
    b"_easyjson.go", b"_gen.rs", b"_wrap.cxx",
)  # fmt: skip
_GENERATED_STARTS = (b"zz_generated.", b"moc_", b"qrc_")
_TEST_STARTS = (b"test_", b"test-", b"tests_")


def category_of_path(path: bytes) -> Category:
    """The category by the path alone."""
    return _CATEGORIES[_by_path(path)]


def category_of(path: bytes, head: bytes) -> Category:
    """The category by the path and the beginning of the content."""
    number = _by_path(path)
    # The content is examined only if the path has not decided already.
    if not number & _GENERATED and (_is_generated(head) or _is_minified(path, head)):
        number |= _GENERATED
    return _CATEGORIES[number]


def _by_path(path: bytes) -> int:
    # In lower case, because `Test/`, `TESTS/` and `Vendor/` are common.
    *folders, name = path.lower().split(b"/")
    number = 0
    # All directories count, so that a test in vendored code is both.
    for folder in folders:
        if folder in _FOLDERS:
            number |= _FOLDERS[folder]
    extension = name.rpartition(b".")[2]
    number |= _NAMES.get(name, 0) | _EXTENSIONS.get(extension, 0)
    if name.endswith(_TEST_ENDS) or name.startswith(_TEST_STARTS):
        number |= _TEST
    if name.endswith(_GENERATED_ENDS) or name.startswith(_GENERATED_STARTS):
        number |= _GENERATED
    return number


# Only in a comment: the source of a generator has the same words in a string.
_MARK = re.compile(
    rb"^[ \t]*(?:[#;%*]|//|/\*|--|<!--|\"\"\"|\(\*|@|rem\b|package\b)?[^\n\"'`]*"
    rb"(?:code generated (?:by|from)|@generated\b|\bauto-?\s?generated\b|automatically generated"
    rb"|generated by (?:the |a )?[\w./-]+|this (?:file|code|source) (?:is|was|has been) generated"
    rb"|generated (?:code|file|source)[^\n]*do not|do not (?:edit|modify)[^\n]*generated|<auto-generated)",
    re.IGNORECASE | re.MULTILINE,
)


def _is_generated(head: bytes) -> bool:
    # A search for two words spares the regular expression in nearly all files.
    if head.find(b"enerated", 0, HEAD_BYTES) < 0 and head.find(b"GENERATED", 0, HEAD_BYTES) < 0:
        return False
    return _MARK.search(head[:HEAD_BYTES]) is not None


def _is_minified(path: bytes, head: bytes) -> bool:
    # Long lines are no sign of generated code in other languages, such as Markdown or CSV.
    if not path.endswith((b".js", b".css", b".mjs", b".cjs")) or len(head) < 2 * MINIFIED_LINE_BYTES:
        return False
    return (head.count(b"\n") + 1) * MINIFIED_LINE_BYTES < len(head)
