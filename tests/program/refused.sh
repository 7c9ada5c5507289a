# refused.sh: the functions of tests/program/check_program.sh, check_options.sh and
# check_refusals.sh. Sourced in a folder of their own, with $clattn the program. `refusals` counts,
# so that a script can check that it tested something.
bad=0 refusals=0
complain() { echo "$*"; bad=1; }

# A command that must be refused.   $1 exit status, $2 a word of the line, then the arguments
refused() {
    want=$1 word=$2
    shift 2
    refusals=$((refusals + 1))
    rm -f refused.npy
    "$clattn" "$@" >stdout 2>stderr
    got=$?
    [ $got = "$want" ] || complain "clattn $*: exit status $got instead of $want"
    [ "$(wc -l <stderr)" = 1 ] || complain "clattn $*: stderr has $(wc -l <stderr) lines: $(cat stderr)"
    grep -q -- "$word" stderr || complain "clattn $*: no '$word' in: $(cat stderr)"
    [ ! -s stdout ] || complain "clattn $*: wrote to stdout"
    [ ! -e refused.npy ] || complain "clattn $*: left an output file"
}
