"""Markdown, Make, SQL, Terraform, CMake, Dockerfiles, tables of TOML and INI."""

from tests.search.symbols.outlines import expected, outline_of


def test_the_headings_of_markdown_lie_in_one_another() -> None:
    source = """\
        # Title #

        ## First
        text # not a heading
        ```sh
        # a comment
        ```
        ### Deeper `code`
        ## Second
        #### Deep
        Set by a line
        =============
        Smaller
        -------
        """
    assert outline_of("Markdown", source) == expected("""
        chapter Title
        section Title.First
        subsection First.Deeper `code`
        section Title.Second
        heading Second.Deep
        chapter Set by a line
        section Set by a line.Smaller
    """)


def test_the_targets_of_a_makefile() -> None:
    source = """\
        CC ?= gcc
        FLAGS := -O2
        .PHONY: all clean
        all: build/app test
        build/%.o: src/%.c
        \t$(CC) -c $<
        clean::
        \trm -rf build
        define RULE
        endef
        """
    assert outline_of("Makefile", source) == expected("""
        variable CC
        variable FLAGS
        target all
        target build/%.o
        target clean
        macro RULE
    """)


def test_the_definitions_of_sql() -> None:
    source = """\
        -- create table no (a int);
        CREATE TABLE IF NOT EXISTS public.users (id int, name text default 'create table x');
        create or replace view active as select 1;
        CREATE UNIQUE INDEX CONCURRENTLY users_name ON users (name);
        CREATE FUNCTION add(a int) RETURNS int AS 'select 1' LANGUAGE sql;
        create procedure "do it"() language sql;
        CREATE TRIGGER stamp BEFORE UPDATE ON users EXECUTE FUNCTION f();
        create type mood as enum ('sad');
        """
    assert outline_of("SQL", source) == expected("""
        table users
        view active
        index users_name
        function add
        procedure do
        trigger stamp
        type mood
    """)


def test_the_blocks_of_terraform() -> None:
    source = """\
        # resource "a" "no" {}
        resource "aws_s3_bucket" "logs" {
          bucket = "x"
        }
        data "aws_ami" "base" {}
        variable "region" { default = "eu" }
        output "url" { value = 1 }
        module "network" { source = "./x" }
        """
    assert outline_of("Terraform", source) == expected("""
        resource logs
        data source base
        variable region
        output url
        module network
    """)


def test_the_definitions_of_cmake() -> None:
    source = """\
        set(NAME value)
        function(add_thing name)
        endfunction()
        MACRO(old_thing)
        add_executable(app main.c)
        # add_library(no x.c)
        """
    assert outline_of("CMake", source) == ["variable NAME", "function add_thing", "macro old_thing", "target app"]


def test_the_stages_of_a_dockerfile() -> None:
    assert outline_of("Dockerfile", "FROM python:3 AS build\nARG VERSION=1\nFROM build as final\n") == [
        "target build",
        "variable VERSION",
        "target final",
    ]


def test_the_tables_of_toml() -> None:
    assert outline_of("TOML", "[project]\nname = 'x'\n[[tool.rules]]\n") == ["section project", "section tool.rules"]
