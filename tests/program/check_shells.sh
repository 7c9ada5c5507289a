#!/bin/sh
# Texts generated from the tables of options. Help fits 100 columns and has an example, mistyped
# names have suggestions, and groff formats the manual pages without a warning. Completions work in
# each installed shell.
#
#   check_shells.sh BUILD
set -u
build=$PWD/$1 clattn=$PWD/$1/clattn
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
. "$OLDPWD/tests/program/refused.sh"
commands=$("$clattn" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ "$(echo "$commands" | wc -w)" -ge 10 ] || complain "clattn --help lists: $commands"

for command in $commands; do
    "$clattn" "$command" --help >help || complain "$command --help"
    grep -q '^example:$' help || complain "$command --help has no example"
    [ "$(LC_ALL=C.UTF-8 awk 'length > 100' help | wc -l)" -eq 0 ] || complain "$command --help is wider than 100 columns"
    twice=$(sed -n 's/^  \(--*[-a-z0-9]*\) .*/\1/p' help | sort | uniq -d)
    [ -z "$twice" ] || complain "$command --help has twice: $twice"
    sed -n '/^example:$/,/^$/p' help | sed '1d;$d' | grep -vq '^    ' && complain "$command --help: an example is not indented"
    "$clattn" manual "$command" >page.1 || complain "manual $command"
    grep -q '^130$' page.1 || complain "manual $command does not know exit status 130"
    for word in NAME SYNOPSIS EXAMPLE OPTIONS 'EXIT STATUS'; do
        [ "$word" = OPTIONS ] && ! grep -q '^  -' help && continue
        grep -q "^.SH $word" page.1 || complain "manual $command has no $word"
    done
    if command -v groff >/dev/null; then
        groff -man -Tutf8 -ww page.1 >page 2>warnings || complain "groff: manual $command"
        [ ! -s warnings ] || complain "groff: manual $command: $(head -n 1 warnings)"
        [ -s page ] || complain "manual $command is empty"
    fi
    [ -s "$build/clattn-$command.1" ] || complain "no page clattn-$command.1 is installed"
done
"$clattn" manual >page.1 && grep -q '^\\fBattend' page.1 || complain "manual"

for word in --version -V version; do [ "$("$clattn" $word)" = "clattn $("$clattn" --version | cut -d ' ' -f 2)" ] || complain "clattn $word"; done
"$clattn" layer --help | grep -q 'also --qk-norm' || complain "layer --help does not name --qk-norm"

# bash: returns the completions for the words so far.
"$clattn" completion bash >clattn.bash || complain "completion bash"
offers() { # WORDS...
    bash -c '. ./clattn.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _clattn; echo "${COMPREPLY[*]}"' bash "$@"
}
expect() { # WHAT WORDS...
    what=$1
    shift
    [ "$(offers "$@")" = "$what" ] || complain "bash offers '$(offers "$@")' for: $*"
}
: >some.npy
mkdir names
(cd names && : >'a b.npy' && : >'*' && : >'a$(touch ran).npy' && : >'q"1.npy' && mkdir 'd e' && : >'d e/x.npy')
offers_alone() { # WORDS...: each in a line, in the folder of names
    (cd names && bash -c '. ../clattn.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _clattn; printf "%s\n" "${COMPREPLY[@]}"' bash "$@")
}
alone() { # WHAT WORDS...
    what=$1
    shift
    [ "$(offers_alone "$@")" = "$what" ] || complain "bash offers '$(offers_alone "$@")' and not '$what' for: $*"
}
for before in 'attend --q' 'compare' 'layer --weights' 'bench --save'; do
    # shellcheck disable=SC2086
    {
        alone 'a b.npy' clattn $before 'a '
        alone 'a$(touch ran).npy' clattn $before 'a$'
        alone 'q"1.npy' clattn $before 'q"'
        alone 'd e/x.npy' clattn $before 'd e/'
        alone '*' clattn $before '*'
    }
done
[ ! -e names/ran ] || complain "bash ran a file's name"
expect 'attend' clattn at
expect '--dropout-mask --dropout' clattn attend --drop
expect 'some.npy' clattn attend --q so
expect '' clattn attend --scale so
expect 'on off' clattn bench --check ''
expect 'some.npy' clattn compare so
expect 'verify' clattn help ver
for command in $commands; do
    for option in $("$clattn" "$command" --help | sed -n 's/^  \(-[-a-z]*\).*/\1/p'); do
        case " $(offers clattn "$command" -) " in
        *" $option "*) ;;
        *) complain "bash does not offer $command $option" ;;
        esac
    done
done
for shell in zsh fish; do
    "$clattn" completion $shell >completion.$shell || complain "completion $shell"
    if command -v $shell >/dev/null; then $shell -n completion.$shell || complain "$shell does not take its completion"; fi
done
if command -v fish >/dev/null; then
    [ "$(fish -N -c 'source completion.fish; complete -C "clattn attend --dropo"' | cut -f 1 | paste -sd ' ')" = \
        '--dropout --dropout-mask' ] ||
        complain "fish: $(fish -N -c 'source completion.fish; complete -C "clattn attend --dropo"')"
fi

refused 2 'did you mean bench' bnch
refused 2 'did you mean --causal' attend --cuasal top-left
refused 2 'see clattn attend --help' attend --nothing-like-it
"$clattn" attend --nothing-like-it 2>&1 | grep -q 'did you mean' && complain "a guess for what is like nothing"
refused 2 'bash, zsh or fish' completion
refused 2 'must be one of' completion tcsh
refused 2 'no command' manual nonesuch
[ "$bad" = 0 ] && echo "completions, manual pages and help: all held"
exit "$bad"
