"""Which language a file is in: by name, by extension, by content."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from argosy.search.languages import LANGUAGES, canonical, language_of


@pytest.mark.parametrize(
    ("path", "language"),
    [
        (b"a.py", "Python"), (b"src/a.go", "Go"), (b"a.rs", "Rust"), (b"a.c", "C"), (b"a.cc", "C++"), (b"a.CPP", "C++"),
        (b"A.java", "Java"), (b"a.js", "JavaScript"), (b"a.mjs", "JavaScript"), (b"a.jsx", "JavaScript"),
        (b"a.ts", "TypeScript"), (b"a.tsx", "TSX"), (b"a.d.ts", "TypeScript"), (b"a.rb", "Ruby"), (b"a.php", "PHP"),
        (b"v/a.blade.php", "Blade"), (b"a.cs", "C#"), (b"a.kt", "Kotlin"), (b"build.gradle.kts", "Gradle Kotlin DSL"),
        (b"a.scala", "Scala"), (b"a.swift", "Swift"), (b"a.sh", "Shell"), (b"a.zsh", "Shell"), (b"a.lua", "Lua"),
        (b"a.hs", "Haskell"), (b"a.ex", "Elixir"), (b"a.sql", "SQL"), (b"README.md", "Markdown"),
        (b"a.tf", "Terraform"),
        (b"a.proto", "Protocol Buffer"), (b"a.graphql", "GraphQL"), (b"Makefile", "Makefile"),
        (b"x/Kbuild", "Makefile"),
        (b"Dockerfile", "Dockerfile"), (b"Dockerfile.dev", "Dockerfile"), (b"drivers/Kconfig", "Kconfig"),
        (b"CMakeLists.txt", "CMake"), (b"notes.txt", "Text"), (b"Cargo.lock", "TOML"), (b"package-lock.json", "JSON"),
        (b"tsconfig.json", "JSON with Comments"), (b".gitignore", "Ignore List"), (b".bashrc", "Shell"),
        (b"go.mod", "Go Module"), (b"a.dts", "Devicetree"), (b"a.S", "Assembly"), (b"a.wl", "Wolfram Language"),
        (b"LICENSE", "Text"), (b"Gemfile", "Ruby"), (b"BUILD.bazel", "Starlark"), (b"a.vue", "Vue"), (b"a.zig", "Zig"),
        (b"a.unknown", ""), (b"noextension", ""), (b"", ""), (b".hidden", ""), (b"\xff\xfe.py", "Python"),
    ],
)  # fmt: skip
def test_the_name_determines_the_language(path: bytes, language: str) -> None:
    assert language_of(path, b"") == language


@pytest.mark.parametrize(
    ("head", "language"),
    [
        (b"#!/bin/sh\n", "Shell"), (b"#!/usr/bin/env python3\n", "Python"), (b"#! /usr/bin/python3.11 -u\n", "Python"),
        (b"#!/usr/bin/env -S node --flag\n", "JavaScript"), (b"#!/usr/bin/env A=1 ruby\n", "Ruby"),
        (b"#!/usr/local/bin/perl -w\n", "Perl"), (b"#!/opt/nothing\n", ""), (b"#!\n", ""), (b"#!/usr/bin/env\n", ""),
        (b"# -*- mode: ruby -*-\n", "Ruby"), (b"/* -*- C++ -*- */\n", "C++"),
        (b"# vim: set ft=python ts=4:\n", "Python"),
        (b"-*- coding: utf-8; mode: perl; x -*-", "Perl"), (b"<?xml version='1.0'?>", "XML"), (b"<?php echo 1;", "PHP"),
        (b"plain text via vi", ""), (b"\x00\x01", ""), (b"", ""),
    ],
)  # fmt: skip
def test_without_an_extension_the_first_lines_decide(head: bytes, language: str) -> None:
    assert language_of(b"bin/tool", head) == language


@pytest.mark.parametrize(
    ("path", "head", "language"),
    [
        (b"a.h", b"struct a { int b; };\n", "C"),
        (b"a.h", b'#ifdef __cplusplus\nextern "C" {\n#endif\nint f(void);\n', "C"),
        (b"a.h", b"#include <stdio.h>\n", "C"), (b"a.h", b"#include <vector>\n", "C++"),
        (b"a.h", b"namespace a {\n", "C++"), (b"a.h", b"class Foo : public Bar {\n", "C++"),
        (b"a.h", b"template <typename T>\n", "C++"), (b"a.h", b"std::string a;\n", "C++"),
        (b"a.h", b"@interface Foo : NSObject\n", "Objective-C"), (b"a.h", b"#import <UIKit/UIKit.h>\n", "Objective-C"),
        (b"a.h", b"/* the first class citizen */\n", "C"), (b"a.m", b"@implementation Foo\n", "Objective-C"),
        (b"a.m", b"% comment\nfunction y = f(x)\nend\n", "MATLAB"),
        (b"a.m", b"(* ::Package:: *)\nBeginPackage[\"A`\"]", "Wolfram Language"),
        (b"a.m", b":- module x.\n", "Mercury"), (b"a.pl", b"use strict;\n", "Perl"),
        (b"a.pl", b":- module(x, []).\n", "Prolog"),
        (b"a.v", b"module top(input a);\n", "Verilog"), (b"a.v", b"Theorem plus : True.\n", "Coq"),
        (b"a.ts", b"<?xml version='1.0'?><!DOCTYPE TS>", "XML"), (b"a.d", b"module app;\nvoid main() {}\n", "D"),
        (b"a.d", b"foo.o: foo.c \\\n  foo.h\n", "Makefile"), (b"a.inc", b"<?php\n", "PHP"),
        (b"a.inc", b"#define A\n", "C++"),
        (b"a.md", b"(define_insn \"x\"\n", "GCC Machine Description"), (b"a.fs", b"let x = 1\n", "F#"),
    ],
)  # fmt: skip
def test_where_languages_share_an_extension_the_content_decides(path: bytes, head: bytes, language: str) -> None:
    assert language_of(path, head) == language


@pytest.mark.parametrize(
    ("name", "language"),
    [
        ("cpp", "C++"), ("c++", "C++"), ("C++", "C++"), ("golang", "Go"), ("GO", "Go"), ("py", "Python"),
        ("js", "JavaScript"),
        ("ts", "TypeScript"), ("sh", "Shell"), ("bash", "Shell"), ("c#", "C#"), ("csharp", "C#"),
        ("objc", "Objective-C"),
        ("Objective-C", "Objective-C"), ("Wolfram Language", "Wolfram Language"),
        ("wolfram-language", "Wolfram Language"),
        ("mathematica", "Wolfram Language"), ("protobuf", "Protocol Buffer"), ("make", "Makefile"),
        ("docker", "Dockerfile"),
        ("f#", "F#"), ("rs", "Rust"), ("kt", "Kotlin"), ("tf", "Terraform"), ("yml", "YAML"), (" python ", "Python"),
        (".rb", "Ruby"), ("ASP.NET", "ASP.NET"), ("vb.net", "Visual Basic .NET"), ("html", "HTML"), ("c", "C"),
        ("R", "R"),
    ],
)  # fmt: skip
def test_a_language_has_many_names(name: str, language: str) -> None:
    assert canonical(name) == language


@pytest.mark.parametrize("name", ["", "nothing", "\x00", "p y t h o n x", "💡"])
def test_an_unknown_language_is_none(name: str) -> None:
    assert canonical(name) is None


def test_every_language_is_known_by_its_own_name_in_any_case() -> None:
    assert len(LANGUAGES) >= 120
    assert [name for name in LANGUAGES if canonical(name) != name or canonical(name.upper()) != name] == []


@given(st.binary(max_size=60), st.binary(max_size=200))
def test_any_path_and_any_content_have_an_answer(path: bytes, head: bytes) -> None:
    assert language_of(path, head) in (*LANGUAGES, "")
