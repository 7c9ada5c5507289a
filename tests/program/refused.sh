# refused.sh: common part of check_program.sh, check_options.sh and check_refusals.sh. Sourced in
# their working folder, with the program in $clattn. Counts refusals in `refusals`, so that a script
# can check that it tested any.
bad=0 refusals=0
complain() { echo "$*"; bad=1; }

# refused STATUS WORD ARGUMENT...: the command must be refused with this exit status, and with WORD
# in its line.
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
