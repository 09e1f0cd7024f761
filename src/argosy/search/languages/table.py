"""The known languages as data: one line each, with the names of GitHub's Linguist.

A line is `name | other names | extensions | whole file names | interpreters` without trailing empty columns; an
indented line continues the previous one. A word is in one line of its column only. If several languages share an
extension, it is in the line of the most common one and `detect.py` examines the content.
"""

_TABLE = """
ABAP | | abap
ABNF | | abnf
ActionScript | as3 | as
Ada | ada95 ada2005 | adb ada ads
Agda | | agda
Apex | | trigger
APL | | apl dyalog
AppleScript | osascript | applescript scpt | | osascript
Arduino | | ino
AsciiDoc | adoc | asciidoc adoc
ASP.NET | aspx | asax ascx ashx asmx aspx axd
Assembly | asm nasm | asm nasm a51 s
Astro | | astro
AutoHotkey | ahk | ahk ahkl
AutoIt | au3 | au3
Awk | | awk gawk mawk nawk auk | | awk gawk mawk nawk
Ballerina | | bal
Batchfile | bat batch dosbatch winbatch | bat cmd
Bicep | | bicep bicepparam
BibTeX | | bib bibtex
BitBake | | bb bbappend bbclass
Blade
C | | c cats idc h
C# | csharp cs c-sharp | cs csx cake
C++ | cpp cplusplus c-plus-plus cxx | cpp cc cxx c++ cp hpp hh hxx h++ inl ipp ixx tcc tpp txx cppm
Cairo | | cairo
Cap'n Proto | capnp capnproto | capnp
Clojure | clj | clj cljs cljc cljx edn boot | riemann.config | bb
CMake | | cmake | CMakeLists.txt
COBOL | | cob cbl ccp cobol cpy
CODEOWNERS | | | CODEOWNERS
CoffeeScript | coffee coffee-script | coffee cson iced cjsx | Cakefile | coffee
ColdFusion | cfm cfml | cfm cfml cfc
Common Lisp | lisp commonlisp | lisp lsp asd ny sexp podsl | | sbcl clisp ecl ccl
Coq | rocq
Crystal | | cr ecr | | crystal
CSS | | css
CSV | | csv
Cuda | cu | cu cuh
CUE | | cue
Cypher | | cyp cypher
Cython | pyrex | pyx pxd pxi
D | dlang | d di
Dart | | dart | | dart
Devicetree | dts device-tree | dts dtsi dtso
Dhall | | dhall
Diff | patch udiff | diff patch
Dockerfile | docker containerfile | dockerfile containerfile | Dockerfile Containerfile
Dotenv | env | env | .env .env.example .env.local .env.test .env.production .env.development
EditorConfig | editor-config | editorconfig | .editorconfig
EJS | | ejs ect
Elixir | | ex exs | mix.lock | elixir
Elm | | elm
Emacs Lisp | elisp emacs | el emacs | .emacs .spacemacs Cask
Erlang | | erl hrl escript xrl yrl | rebar.config rebar.lock | escript
F# | fsharp f-sharp | fs fsi fsx
Fennel | | fnl | | fennel
Fish | | fish | | fish
FlatBuffers | fbs | fbs
Fluent | | ftl
Forth | | 4th fth frt forth
Fortran | | f for ftn f77 fpp
Fortran Free Form | f90 | f90 f95 f03 f08
FreeMarker | | ftlh
GCC Machine Description
GDScript | | gd
Gherkin | cucumber | feature
Git Attributes | gitattributes | | .gitattributes
Git Config | gitconfig gitmodules | gitconfig | .gitconfig .gitmodules
Gleam | | gleam
GLSL | | glsl frag vert geom comp tesc tese fp shader glslf glslv
GN | | gn gni | .gn
Gnuplot | | gnuplot gp plt plot | | gnuplot
Go | golang | go
Go Checksums | go.sum gosum | | go.sum go.work.sum
Go Module | go.mod gomod | | go.mod
Go Workspace | go.work gowork | | go.work
Gradle | | gradle
Gradle Kotlin DSL
GraphQL | gql | graphql gql graphqls
Graphviz (DOT) | dot graphviz | dot gv
Groovy | | groovy grt gtpl gvy | Jenkinsfile | groovy
Hack | | hack hhi
Haml | | haml
Handlebars | hbs | handlebars hbs
Haskell | hs | hs hsc hs-boot | | runghc runhaskell
Haxe | | hx hxsl
HCL | | hcl nomad
HLSL | | hlsl hlsli fx fxh cginc
HTML | xhtml | html htm xhtml xht hta
HTML+ERB | erb html+erb | erb
HTML+Django | djangohtml jinja jinja2 | jinja j2 jinja2
HTML+PHP | phtml | phtml
HTTP | | http
Idris | | idr lidr
Ignore List | gitignore ignore | gitignore | .gitignore .dockerignore .npmignore .eslintignore .prettierignore
    .argosyignore .ignore .rgignore .hgignore .helmignore
INI | dosini | ini cfg dof prefs | .flake8 .pylintrc .coveragerc pylintrc
Io | | io
ISPC | | ispc
Janet | | janet
Java | | java jav jsh
Java Properties | properties | properties
Java Server Pages | jsp | jsp jspf tag
JavaScript | js node javascript-react jsx | js mjs cjs jsx es es6 jsm ssjs pac bones jake njs xsjs xsjslib |
    Jakefile | node nodejs bun
JSON | jsonl ndjson geojson | json jsonl ndjson geojson webmanifest topojson avsc har ice mcmeta tfstate webapp yy
    yyp gltf | .arcconfig .watchmanconfig composer.lock deno.lock Pipfile.lock flake.lock package-lock.json
    .all-contributorsrc bun.lock
JSON with Comments | jsonc | jsonc code-workspace code-snippets sublime-settings sublime-project sublime-keymap |
    tsconfig.json jsconfig.json .babelrc .eslintrc.json .jshintrc .jscsrc devcontainer.json .swcrc
    api-extractor.json language-configuration.json tslint.json
JSON5 | | json5
jq | | jq | | jq
Jsonnet | | jsonnet libsonnet
Julia | | jl | Manifest.toml | julia
Jupyter Notebook | ipynb ipython-notebook | ipynb
Just | justfile | just | justfile Justfile .justfile
Kconfig | | kconfig | Kconfig Kconfig.debug
Kotlin | kt | kt kts ktm | | kotlin
KDL | | kdl
LaTeX | | latex
Lean | lean4 | lean hlean
Less | less-css | less
Lex | flex | l lex
Linker Script | ld | ld lds x
Liquid | | liquid
LiveScript | ls live-script | ls
LLVM | | ll
Logos | | xm xi
Lua | | lua nse rbxs rockspec wlua | .luacheckrc | lua luajit
Luau | | luau
M4 | | m4
Makefile | make mf bsdmake | mak mk mkfile make | Makefile makefile GNUmakefile BSDmakefile Kbuild Makefile.am
    Makefile.in makefile.sco | make
Mako | | mako mao
Markdown | md pandoc | md markdown mdown mdwn mkd mkdn mkdown ronn livemd workbook scd | README.md contents.lr
MATLAB | octave | matlab
MDX | | mdx
Mercury
Mermaid | | mmd mermaid
Meson | | | meson.build meson_options.txt meson.options
MLIR | | mlir
Mojo | | mojo
Move | | move
Mustache | | mustache
Nginx | nginx-configuration-file | nginx nginxconf vhost | nginx.conf
Nim | | nim nimble nimrod nims
Ninja | | ninja
Nix | nixos | nix
Nushell | nu | nu | | nu
NSIS | | nsi nsh
Objective-C | obj-c objc objectivec | m
Objective-C++ | obj-c++ objc++ objectivec++ | mm
OCaml | | ml mli mll mly eliom eliomi ml4 | | ocaml ocamlrun
Odin | odin-lang | odin
OpenCL | | cl opencl clcl
OpenEdge ABL | abl progress | p
OpenSCAD | | scad
Org | | org
Pascal | delphi objectpascal | pas pascal dpr dfm lpr
Perl | cperl | pl pm perl ph plx t al psgi cgi | Makefile.PL cpanfile Rexfile ack | perl
PHP | inc | php php3 php4 php5 phps phpt aw ctp | .php_cs Phakefile | php
Pkl | | pkl
PlantUML | | puml plantuml iuml wsd
PL/pgSQL | plpgsql | pgsql
PL/SQL | plsql | pls pck pkb pks plb plsql plsqlsql
Pony | | pony
PostCSS | | pcss postcss
PostScript | postscr | ps eps epsi pfa
PowerShell | posh pwsh | ps1 psd1 psm1 | | pwsh
Prisma | | prisma
Prolog | | prolog yap | | swipl yap
Protocol Buffer | proto protobuf protocol-buffers | proto
Protocol Buffer Text Format | textproto prototxt pbtxt | pbtxt textproto prototxt txtpb
Pug | jade | pug jade
Puppet | | pp | Modulefile
PureScript | | purs
Python | py python3 rusthon | py pyi py3 pyw pyde gyp gypi lmi pyp pyt rpy tac wsgi xpy smk | SConstruct
    SConscript wscript Snakefile .gclient DEPS | python python2 python3 pypy pypy3 uv
QML | | qml qbs
R | rlang rscript splus | r rd rsx | .Rprofile expr-dist | Rscript
Racket | rkt | rkt rktd rktl scrbl | | racket
Raku | perl6 perl-6 | raku rakumod p6 pm6 pl6 | | raku perl6
Razor | cshtml | cshtml razor
ReScript | | res resi
reStructuredText | rst | rst rest
Rego | opa | rego
RDoc | | rdoc
Roff | groff man nroff troff manpage | man roff 1 2 3 4 5 6 7 8 9 1m 3x me mdoc ms nr rno tmac
RPM Spec | specfile | spec
Ruby | rb jruby macruby rake rbx | rb rake gemspec ru builder podspec thor rabl jbuilder rbi rbw rbx eye god mspec
    pluginspec prawn watchr | Rakefile Gemfile Gemfile.lock Guardfile Capfile Podfile Vagrantfile Brewfile
    Fastfile Berksfile Appraisals Dangerfile Deliverfile Thorfile .irbrc .pryrc config.ru Steepfile | ruby macruby
    rake jruby rbx
Rust | rs | rs | | rust-script cargo
Sass | | sass
Scala | | scala sc kojo sbt mill | | scala
Scheme | | scm ss sch sld sls sps | | guile gosh scheme chicken csi
SCSS | | scss
Shell | sh bash zsh ksh shell-script ash dash | sh bash zsh ksh bats ebuild eclass command tmux tool | .bashrc
    .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zprofile .zshenv .zlogin .zlogout .kshrc
    .envrc PKGBUILD APKBUILD gradlew configure.ac bashrc zshrc profile | sh bash zsh ksh dash ash mksh pdksh rc
    bats
ShellSession | console bash-session | sh-session
Slim | | slim
Smalltalk | squeak | st
Smarty | | tpl
Snakemake | | snakefile
Solidity | sol | sol
SPARQL | | sparql rq
SQL | | sql ddl dml mysql prc tab udf viw cql
Standard ML | sml | sml sig fun
Starlark | bazel bzl | bzl star | BUILD BUILD.bazel WORKSPACE WORKSPACE.bazel MODULE.bazel Tiltfile BUCK
Stata | | do ado doh ihlp mata matah sthlp
Stylus | | styl
Svelte | | svelte
SVG | | svg
Swift | | swift | | swift
SystemVerilog | | sv svh vh
Tcl | | tcl adp tm | | tclsh wish expect
Templ | | templ
TeX | | tex sty cls dtx ins ltx bbx cbx lbx mkii mkiv toc
Terraform Template | | tftpl
Terraform | tf terraform-hcl | tf tfvars tofu
Text | plaintext txt fundamental | txt text no | LICENSE COPYING README INSTALL NEWS FAQ AUTHORS CHANGES
    LICENSE.txt requirements.txt CREDITS MAINTAINERS
Textile | | textile
Thrift | | thrift
TOML | | toml | Cargo.lock Gopkg.lock poetry.lock uv.lock pdm.lock Pipfile .rustfmt.toml
TSQL | | tsql
TSV | | tsv
TSX | typescriptreact | tsx
Twig | | twig
TypeScript | ts | ts mts cts | | deno ts-node tsx
Typst | typ | typ
UnrealScript | | uc
V | vlang | vsh
Vala | | vala vapi
Verilog | | v veo
VHDL | | vhdl vhd vhf vhi vho vhs vht vhw
Vim Script | vim viml nvim vimscript | vim vmb | .vimrc _vimrc vimrc .gvimrc .nvimrc .exrc
Visual Basic .NET | visual-basic vb vb.net vbnet | vb vbhtml
VBA | vb6 visual-basic-6.0 | bas vba frm
VBScript | vbs | vbs
Vue | | vue
Vyper | | vy
WebAssembly | wast wasm | wat wast
WebGPU Shading Language | wgsl | wgsl
Wikitext | mediawiki wiki | mediawiki wiki wikitext
WIT | wit | wit
Wolfram Language | mathematica mma wl wolfram wolfram-lang | wl mathematica wls nb cdf mt nbp | | wolframscript
X++ | xpp | xpp
XML | rss xsd wsdl | xml xsd xsl xslt wsdl xaml xib storyboard csproj vbproj fsproj vcxproj props targets nuspec
    resx plist xlf xliff ui rss atom kml gpx dita ditamap iml jnlp launch mxml pom rdf tmx wsf xul zcml proj
    config nunit xjb xacro xspec ant fxml glade grxml ivy jelly | .classpath .project .cproject Web.config
    App.config NuGet.config packages.config
XProc | | xpl xproc
XQuery | | xquery xq xqm xql xqy
Xtend | | xtend
Yacc | bison | y yacc
YAML | yml | yml yaml mir reek rviz sublime-syntax syntax yaml-tmlanguage | .clang-format .clang-tidy .clangd
    .gemrc CITATION.cff glide.lock yarn.lock pnpm-lock.yaml pixi.lock .prettierrc .stylelintrc .eslintrc
YANG | | yang
Yul | | yul
Zig | | zig zon
Zimpl | | zimpl zmpl zpl
"""


def _rows() -> list[list[str]]:
    lines = _TABLE.replace("\n    ", " ").strip().splitlines()
    # Padded, because trailing empty columns are left out.
    return [[cell.strip() for cell in line.split("|")] + [""] * 4 for line in lines]


def _by_cell(column: int) -> dict[bytes, str]:
    """The language of each word of a column."""
    found: dict[bytes, str] = {}
    for row in _rows():
        for word in row[column].split():
            assert found.setdefault(word.encode(), row[0]) == row[0], f"{word} is listed for two languages"
    return found


def _squeeze(name: str) -> str:
    # People write `C Sharp`, `c-sharp` and `csharp`.
    return name.lower().replace(" ", "").replace("-", "").replace("_", "")


def _by_name() -> dict[str, str]:
    """All names of languages. A name takes precedence over an alias of another language, an alias over an extension."""
    found = {_squeeze(row[0]): row[0] for row in _rows()}
    for row in _rows():
        for word in row[1].split():
            found.setdefault(_squeeze(word), row[0])
    # People also search for `lang:rs`, so extensions are names unless a language or alias has them.
    for extension, language in BY_EXTENSION.items():
        found.setdefault(_squeeze(extension.decode()), language)
    return found


LANGUAGES = tuple(sorted((row[0] for row in _rows()), key=str.lower))
BY_EXTENSION = _by_cell(2)  # without the dot, in lower case
BY_FILE_NAME = _by_cell(3)
BY_INTERPRETER = _by_cell(4)
_BY_NAME = _by_name()


def canonical(name: str) -> str | None:
    """The canonical name of a language by name, alias or extension, ignoring case, spaces and hyphens.

    None if unknown.
    """
    return _BY_NAME.get(_squeeze(name.strip())) or _BY_NAME.get(_squeeze(name.strip().removeprefix(".")))
