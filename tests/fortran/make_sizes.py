#!/usr/bin/env python3
"""Two programs that print the size of each type of the Fortran module and the offset of its last member, in Fortran and in C.

Usage: make_sizes.py isogrid.f90 sizes.f90 sizes.c
"""
import re
import sys

module, fortran, c = sys.argv[1:]
with open(module, encoding="utf-8") as source:
    types = re.findall(r"^    type, bind\(C\) :: (\w+)\n(.*?)^    end type", source.read(), flags=re.M | re.S)
structs = []
for name, body in types:
    last = re.findall(r":: (\w+)", body)[-1]
    if last != "handle":
        structs.append((name, name[2:] if name.startswith("c_") else name, last))

with open(fortran, "w", encoding="utf-8") as out:
    out.write("program sizes\n    use, intrinsic :: iso_c_binding\n    use isogrid\n    implicit none\n")
    for i, (name, _, _) in enumerate(structs):
        out.write(f"    type({name}), target :: s{i}\n")
    for i, (_, c_name, last) in enumerate(structs):
        out.write(f'    print "(a, 2(1x, i0))", "{c_name}", c_sizeof(s{i}), offset(c_loc(s{i}), c_loc(s{i}%{last}))\n')
    out.write("contains\n    function offset(first, last)\n        type(c_ptr), intent(in) :: first, last\n"
              "        integer(c_intptr_t) :: offset\n"
              "        offset = transfer(last, offset) - transfer(first, offset)\n    end function offset\nend program sizes\n")

with open(c, "w", encoding="utf-8") as out:
    out.write("#include <isogrid_mpi.h>\n#include <stdio.h>\n#include <stddef.h>\n\nint main(void)\n{\n")
    for _, c_name, last in structs:
        out.write(f'    printf("{c_name} %zu %zu\\n", sizeof({c_name}), offsetof({c_name}, {last}));\n')
    out.write("}\n")
