#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What people do wrong, and what they get for it: every case must end with its exit status and a message that says what is the
# matter, and must leave files that were there as they were. Then the commands that must work, end to end on a small model.
#
#   cli.sh BUILD_FOLDER SOURCE_FOLDER
set -u
build=$(cd "$1" && pwd)
source=$(cd "$2" && pwd)
sambaflow=$build/sambaflow
logreg=$build/examples/logreg
lenet=$build/examples/lenet
gpt2=$build/examples/gpt2
data=$source/examples/data
work=$(mktemp -d)
mounted=
trap '[ -n "$mounted" ] && umount "$mounted"; rm -rf "$work"' EXIT
cd "$work" || exit 1

cases=0 failures=0
fail() {
    failures=$((failures + 1))
    echo "FAIL $1"
    sed 's/^/     /' out.txt err.txt
}

# refuses NAME STATUS MESSAGE COMMAND...: the command ends with STATUS and MESSAGE is in what it says on stderr
refuses() {
    local name=$1 status=$2 message=$3 got
    shift 3
    cases=$((cases + 1))
    "$@" >out.txt 2>err.txt </dev/null
    got=$?
    if [ "$got" -ne "$status" ]; then
        fail "$name: exit status $got instead of $status"
    elif ! grep -qF -- "$message" err.txt; then
        fail "$name: no '$message' in the message"
    fi
}

# does NAME TEXT COMMAND...: the command succeeds and TEXT is in its output
does() {
    local name=$1 text=$2 got
    shift 2
    cases=$((cases + 1))
    "$@" >out.txt 2>err.txt </dev/null
    got=$?
    if [ "$got" -ne 0 ]; then
        fail "$name: exit status $got"
    elif ! grep -qF -- "$text" out.txt; then
        fail "$name: no '$text' in the output"
    fi
}

# same NAME FILE COPY: an existing file survived
same() {
    cases=$((cases + 1))
    cmp -s "$2" "$3" || { : >out.txt; : >err.txt; fail "$1: $2 changed"; }
}

# ---- what must work first ----
does "compile" "out/logreg/logreg.pef" "$logreg" compile -b=100
pef=out/logreg/logreg.pef
[ -s "$pef" ] || { echo "FAIL no PEF to test with"; cat err.txt; exit 1; }
does "compile to a file" "app.pef" "$logreg" compile -b=64 -mb=16 -p app.pef
does "compile for inference" "logreg.pef" "$logreg" compile --inference --output-folder inf
does "inspect" "BCKWD" "$sambaflow" inspect "$pef"
does "inspect with stages" "lin_layer.weight.grad" "$sambaflow" inspect -v "$pef"
does "inspect the graph" "cross_entropy" "$sambaflow" inspect --graph "$pef"
does "inspect operators" "FWD        0  matmul      float32(100, 10)  lin_layer" "$sambaflow" inspect --operators "$pef"
does "inspect operators as JSON" '"module": "lin_layer"' "$sambaflow" inspect --operators --json "$pef"
does "inspect as JSON" '"schedule"' "$sambaflow" inspect --json "$pef"
does "inspect knows this machine's scratch" "are this machine's:" "$sambaflow" inspect "$pef"
does "scratch and whose as JSON" '"scratch_of"' "$sambaflow" inspect --json "$pef"
does "compile does not know scratch" "at load" "$logreg" compile -b=100
does "the machine" "beside these a block of rows comes nearer" "$sambaflow" machine
does "the machine as JSON" '"vector_bytes": 16' "$sambaflow" machine --json --isa generic
refuses "a machine of a PEF" 64 "machine takes no PEF" "$sambaflow" machine "$pef"
refuses "a machine with what it has not" 1 "is not available" "$sambaflow" machine --isa neon9
refuses "a machine with threads" 64 "--threads is not an option of machine" "$sambaflow" machine --threads 2
does "version" "sambaflow 0." "$sambaflow" --version
does "help" "measure-sections" "$sambaflow" --help
does "help of an application" "--microbatch-size" "$logreg" --help
does "run a PEF" "loss" "$sambaflow" run "$pef" --num-iterations 3
does "write an output" "logits" "$sambaflow" run "$pef" --output logits=logits.npy --section-types fwd --eval
does "write an input-like file" "loss" "$sambaflow" run "$pef" --output loss=loss.npy --save weights.safetensors
does "load weights" "loss" "$sambaflow" run "$pef" --load weights.safetensors
npy() { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '$1', 'fortran_order': False, 'shape': $2, }"; }
{ npy '<f4' '(100, 784)'; head -c 313600 /dev/zero | tr '\0' '\377'; } >nan.npy
does "outputs of nothing but NaN" "logits  float32  (100, 10)  nan   nan  nan" "$sambaflow" run "$pef" --input image=nan.npy \
    --section-types FWD
does "hyperparameters" "loss" "$sambaflow" run "$pef" --hyperparameter lr=0.5
does "measure performance" "MFU" "$sambaflow" measure-performance "$pef" --num-iterations 5
does "report" "page.html" "$sambaflow" report "$pef" -o page.html
does "report beside the PEF" "$pef.html" "$sambaflow" report "$pef" --threads 1
does "profile a run" "0 FWD       3 " "$sambaflow" run "$pef" --num-iterations 3 --profile summary
does "profile a run in detail" "0.0 contract by " "$sambaflow" run "$pef" --num-iterations 3 --profile detailed \
    --trace times.json
does "the trace makes a page" "times.html" "$sambaflow" report "$pef" -o times.html --profile times.json
does "write the page at once" "operators (section.stage)" "$sambaflow" run "$pef" --profile detailed --trace page.html
does "profile to JSON" '"roofline"' "$sambaflow" run "$pef" --profile detailed --json
refuses "profile: no such word" 64 "--profile much: expected summary or detailed" "$sambaflow" run "$pef" --profile much
refuses "profile: nothing measured" 64 "--trace t.json: measured by what" "$sambaflow" run "$pef" --trace t.json
refuses "profile: where it cannot be written" 1 "/nowhere/t.json" "$sambaflow" run "$pef" --profile summary \
    --trace /nowhere/t.json
does "tune" "$pef.tune: " "$sambaflow" tune "$pef" --seconds 0 --threads 2
does "tune to another file as JSON" '"model_ms"' "$sambaflow" tune "$pef" --seconds 0 --threads 2 --json -o other.tune
does "run by what was tuned" "tuned by $pef.tune: " "$sambaflow" run "$pef" --threads 2
does "run by another file" '"file": "other.tune"' "$sambaflow" run "$pef" --threads 2 --tune other.tune --json
does "run without" '"tune": null' "$sambaflow" run "$pef" --threads 2 --no-tune --json
does "train by what was tuned" "test accuracy" "$logreg" run -p "$pef" --data "$data" --num-iterations 2 --threads 2
does "measure by what was tuned" "tuned by " "$sambaflow" measure-performance "$pef" --num-iterations 2 --threads 2
does "inspect roads" "contract by " "$sambaflow" inspect -v "$pef" --tune other.tune
does "inspect roads as JSON" '"road"' "$sambaflow" inspect -v "$pef" --json --no-tune
warns() { # NAME MESSAGE COMMAND...: it works, and says so on stderr
    local name=$1 message=$2
    shift 2
    cases=$((cases + 1))
    "$@" >out.txt 2>err.txt </dev/null || fail "$name: exit status $?"
    grep -qF -- "$message" err.txt || fail "$name: no '$message' in the warning"
}
warns "a tune file of other threads" "other.tune\": machine.threads: expected 1, given 2" "$sambaflow" run "$pef" --threads 1 \
    --tune other.tune
warns "a tune file of another PEF" "other.tune\": plan: expected " "$sambaflow" run app.pef --threads 2 --tune other.tune
warns "a tune file of other threads beside the PEF" ".tune\": machine.threads: expected 1, given 2" "$sambaflow" \
    measure-performance "$pef" --threads 1 --num-iterations 1
echo '{' >damaged.tune
warns "a damaged tune file" "damaged.tune\": line " "$sambaflow" report "$pef" -o damaged.html --tune damaged.tune
warns "training by a damaged tune file" "logreg: warning: not tuned: " "$logreg" run -p "$pef" --data "$data" --num-iterations 1 \
    --tune damaged.tune
rm "$pef.tune"
refuses "tune: no such file" 1 "cannot read the tune file \"none.tune\"" "$sambaflow" run "$pef" --tune none.tune
refuses "tune: both" 64 "--tune and --no-tune contradict each other" "$sambaflow" run "$pef" --tune other.tune --no-tune
refuses "tune: two files" 64 "tune writes one file: '--output b' is one too many" "$sambaflow" tune "$pef" -o a -o b
refuses "tune: where it cannot be written" 1 "/nowhere/a.tune" "$sambaflow" tune "$pef" -o /nowhere/a.tune
refuses "tune: over the PEF" 1 "$pef" "$sambaflow" tune "$pef" -o "$pef"
refuses "tune: no PEF" 64 "which PEF" "$sambaflow" tune
refuses "tune: no time" 64 "--seconds: expected a number from 0" "$sambaflow" tune "$pef" --seconds -1
refuses "tune: no option of it" 64 "--save is not an option of tune" "$sambaflow" tune "$pef" --save w.safetensors
# ---- scale ----
does "compile for replicas" "replicas.pef" "$logreg" compile -b=100 --data-parallel -p replicas.pef
does "scale" "400gbit  inorder     10000" "$sambaflow" scale replicas.pef --num-iterations 2 --threads 1
does "scale says what it assumes" "the network between the links is never the narrow part" "$sambaflow" scale replicas.pef \
    --flops 2T,200GB
does "scale: networks and modes" "1.2GB    optimal         8" "$sambaflow" scale replicas.pef --flops 1e9 --network 1.2GB,20us \
    --network 10Gbit,5us,1us,5GB,0.25 --mode normal,optimal --replicas 2,8
does "scale as JSON" '"efficiency"' "$sambaflow" scale replicas.pef --flops 2G --json --sharded-optimizer \
    --reduce-dtype bfloat16
does "scale: a picture" "scale" "$sambaflow" scale replicas.pef --flops 2G --json --svg scale.svg
does "scale: the picture is one" "400gbit, inorder" cat scale.svg
does "scale: a profile for it" "loss" "$sambaflow" run replicas.pef --num-iterations 2 --profile summary --trace replicas.json
does "scale by a profile" "sections as replicas.json has them" "$sambaflow" scale replicas.pef --profile replicas.json
refuses "scale: compiled for one" 1 "has no section of type REDUCE, which averages the gradients of replicas" "$sambaflow" \
    scale "$pef"
refuses "scale: no PEF" 64 "scale: which PEF" "$sambaflow" scale
refuses "scale: another PEF's profile" 1 "times.json" "$sambaflow" scale replicas.pef --profile times.json
refuses "scale: no such graph" 1 "there is no graph \"other\"; the PEF's are: \"logreg\"" "$sambaflow" scale replicas.pef \
    --graph-name other
refuses "scale: measure what" 1 "--measure: this process is the only replica: start it by mpirun -n 2" "$sambaflow" scale \
    replicas.pef --flops 2T --measure
refuses "scale: no such network" 64 "--network: expected 10gbit, 100gbit, 400gbit, or BANDWIDTH,LATENCY" "$sambaflow" scale \
    replicas.pef --network 40gbit
refuses "scale: a network without units" 64 "given '5,5'" "$sambaflow" scale replicas.pef --network 5,5
refuses "scale: a network of one figure too many" 64 "given '1GB,1us,1us,1GB,0,1,1'" "$sambaflow" scale replicas.pef \
    --network 1GB,1us,1us,1GB,0,1,1
refuses "scale: all of the processors" 64 "given '1GB,1us,1us,1GB,1'" "$sambaflow" scale replicas.pef \
    --network 1GB,1us,1us,1GB,1
refuses "scale: no speed beside sections" 64 "given '1GB,1us,1us,1GB,0,0'" "$sambaflow" scale replicas.pef \
    --network 1GB,1us,1us,1GB,0,0
refuses "scale: no such mode" 64 "--mode: expected normal, inorder or optimal, given 'fast'" "$sambaflow" scale replicas.pef \
    --mode fast
refuses "scale: a mode twice" 64 "--mode: 'normal' is given twice" "$sambaflow" scale replicas.pef --mode normal,normal
refuses "scale: replicas twice" 64 "--replicas: 2 is given twice" "$sambaflow" scale replicas.pef --replicas 2,2
refuses "scale: no replicas" 64 "--replicas: expected a whole number from 1 to 1000000" "$sambaflow" scale replicas.pef \
    --replicas 0
refuses "scale: no rate" 64 "--flops: expected FLOP a second, e.g. 2T" "$sambaflow" scale replicas.pef --flops fast
refuses "scale: two sources of times" 64 "--flops and --profile contradict each other" "$sambaflow" scale replicas.pef \
    --flops 2T --profile replicas.json
refuses "scale: steps of nothing" 64 "--num-iterations: nothing is run with --flops" "$sambaflow" scale replicas.pef --flops 2T \
    --num-iterations 3
refuses "scale: no such dtype" 64 "--reduce-dtype: expected float32 or bfloat16, given 'int8'" "$sambaflow" scale replicas.pef \
    --reduce-dtype int8
refuses "scale: a line of one point" 64 "--svg: a line takes two numbers of replicas" "$sambaflow" scale replicas.pef --flops 2T \
    --replicas 4 --svg a.svg
refuses "scale: a picture over the PEF" 1 "replicas.pef" "$sambaflow" scale replicas.pef --flops 2T --svg replicas.pef
refuses "scale: no option of it" 64 "--save is not an option of scale" "$sambaflow" scale replicas.pef --save w.safetensors
refuses "scale: no command of it" 64 "--network is not an option of tune" "$sambaflow" tune "$pef" --network 10gbit

refuses "report: two pages" 64 "'--output b' is one too many" "$sambaflow" report "$pef" -o a -o b
refuses "report: no times" 1 "nothing.json" "$sambaflow" report "$pef" -o no.html --profile nothing.json
refuses "report: a PEF is no profile" 1 "is no JSON" "$sambaflow" report "$pef" -o no.html --profile "$pef"
refuses "report: where it cannot be written" 1 "/nowhere/page.html" "$sambaflow" report "$pef" -o /nowhere/page.html
refuses "report: no option of it" 64 "--json is not an option of report" "$sambaflow" report "$pef" --json
refuses "run: a pair" 64 "expected NAME=FILE" "$sambaflow" run "$pef" -o page.html
does "measure sections as JSON" '"share"' "$sambaflow" measure-sections "$pef" --num-iterations 5 --json
does "train" "test accuracy" "$logreg" run -p "$pef" --data "$data" --num-iterations 5
"$logreg" compile --momentum 0 --weight-decay 0 --pef scheduled.pef >/dev/null
does "train by a schedule that ends at 0" "test accuracy" "$logreg" run -p scheduled.pef --data "$data" --lr-schedule cosine \
    --warmup-steps 2 --total-steps 4 --num-iterations 4 --save four.safetensors
does "train on at a rate of 0" "test accuracy" "$logreg" run -p scheduled.pef --data "$data" --lr-schedule cosine \
    --warmup-steps 2 --total-steps 4 --num-iterations 7 --save seven.safetensors
tail -c 31400 four.safetensors >four.weights # 785 x 10 floats; before them stands how many runs there were
tail -c 31400 seven.safetensors >seven.weights
same "a rate of 0" four.weights seven.weights
does "train with microbatches" "test accuracy" "$logreg" run -b 64 -mb 16 -p app.pef --data "$data" --num-iterations 5
does "train to JSON" '"test_accuracy_percent"' "$logreg" run -p "$pef" --data "$data" --num-epochs 1 --json \
    --save trained.safetensors
does "test the trained" "test accuracy" "$logreg" run --inference -p inf/logreg/logreg.pef --data "$data" \
    --load trained.safetensors
does "compare with the reference" "lin_layer.bias.grad" "$logreg" test -b 8
does "compare mixed precision with the reference" "lin_layer.bias.grad" "$logreg" test -b 8 --precision bf16
does "compile in bf16" "b.pef" "$logreg" compile --precision bf16 -p b.pef
does "inspect the precision" "bf16: contractions" "$sambaflow" inspect b.pef
does "precision as JSON" '"precision": "bf16"' "$sambaflow" inspect --json b.pef
refuses "no such precision" 64 "fp32" "$logreg" compile --precision fp8
does "compare AdamW with the reference" "lin_layer.weight.exp_avg" "$logreg" test -b 8 --optimizer adamw --max-grad-norm 1

does "go on after NaN" "became nan" "$logreg" run -p "$pef" --data "$data" --lr 1e6 --weight-decay 1e6 --num-epochs 1 --json
refuses "train: NaN" 1 "the loss of step 2 is no number (NaN): the training stops" "$logreg" train -b 100 -p nan.pef \
    --data "$data" --lr 1e38 --num-epochs 1
does "train: compile and run" "test accuracy" "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 5 --lr 0.02 \
    --save whole.safetensors
does "train: compile alone" "two.pef" "$logreg" compile -b 100 -p two.pef --lr 0.02
does "train: the same in two commands" "test accuracy" "$logreg" run -p two.pef --data "$data" --num-iterations 5 \
    --save two.safetensors
same "train: the PEF" whole.pef two.pef
same "train: the weights" whole.safetensors two.safetensors
does "train: as JSON" '"command": "train"' "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 4 --log-every 2 \
    --eval-every 2 --json
grep -q '"log": \[' out.txt && grep -q '"accuracy_percent"' out.txt || fail "train: the log as JSON"
does "train: a line a step and tests" "step 4/4  loss" "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 4 \
    --log-every 2 --eval-every 2
grep -q "^step 2  test accuracy" out.txt || fail "train: tests between"
does "train: checkpoints" "test accuracy" "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 3 \
    --checkpoint-dir steps
does "train: resume" "resumed from steps/checkpoint-3" "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 5 \
    --checkpoint-dir steps --resume --lr 0.02 --save whole.safetensors
does "train: no decay" "test accuracy" "$logreg" train -b 100 -p whole.pef --data "$data" --num-iterations 2 --weight-decay 0.1 \
    --no-decay vectors --lr-schedule linear
does "no decay beside the reference" "lin_layer.bias.grad" "$logreg" test -b 8 --weight-decay 0.1 --no-decay '*.bias' \
    --optimizer adamw
refuses "train: no decay of nothing" 1 "no parameter matches '*.gamma'" "$logreg" train -b 100 -p w.pef --data "$data" \
    --no-decay '*.gamma'
refuses "train: no decay of an empty name" 1 "--no-decay: expected patterns of names" "$logreg" train -b 100 -p w.pef \
    --data "$data" --no-decay 'vectors,'
does "train: the last batch" "test accuracy" "$logreg" train -b 90 -mb 30 -p last.pef --data "$data" --num-epochs 1 --keep-last \
    --save last.safetensors
does "train: the last batch in two commands" "test accuracy" "$logreg" run -p last.pef --data "$data" --num-epochs 1 \
    --save again.safetensors
same "train: the last batch's weights" last.safetensors again.safetensors
"$logreg" compile -b 90 -p ninety.pef >/dev/null
refuses "train: no graph for the last batch" 1 "compile with --last-batch 40" "$logreg" run -p ninety.pef --data "$data" \
    --keep-last
"$logreg" compile -b 90 -mb 30 -p other.pef --last-batch 89 >/dev/null
refuses "train: a graph for another last batch" 1 "compile with" "$logreg" run -p other.pef --data "$data"
refuses "train: no smaller last batch" 64 "is no smaller batch than" "$logreg" compile -b 32 --last-batch 32
refuses "train: the last batch of replicas" 64 "replicas share each step evenly" "$logreg" train --keep-last --data-parallel
refuses "measure: two graphs" 1 "measures PEFs of one" "$logreg" measure-performance -p other.pef
refuses "train: inference" 64 "--inference is not an option of train" "$logreg" train --inference
refuses "train: an option of a measurement" 64 "--run-graph-only is not an option of train: give it to measure-performance" \
    "$logreg" train --run-graph-only
refuses "train: file and folder" 64 "--pef says which file to write" "$logreg" train --pef x.pef --output-folder out
digits=("$data/digits-images-idx3-ubyte.gz" "$data/digits-labels-idx1-ubyte.gz")
does "train without the compiler" "  best" "$build/examples/train_alone" "$pef" "${digits[@]}"
refuses "train without the compiler: no samples" 1 "usage: train_alone" "$build/examples/train_alone" "$pef"
refuses "train without the compiler: labels as images" 1 "does not make samples of field 'image'" "$build/examples/train_alone" \
    "$pef" "${digits[1]}" "${digits[0]}"
does "train: stop early" "tests were no better than the best" "$logreg" run -p "$pef" --data "$data" --num-epochs 50 \
    --patience 1 --min-delta 50 --save-best best.safetensors --save last.safetensors
does "train: the best weights" "test accuracy" "$logreg" run -p "$pef" --data "$data" --inference --load best.safetensors
does "train: stop early, every so many steps" '"stopped_early": true' "$logreg" run -p "$pef" --data "$data" --num-epochs 50 \
    --patience 1 --min-delta 50 --eval-every 10 --json
long=(--data "$data" --num-epochs 9 --patience 2 --min-delta 50)
"$logreg" run -p "$pef" "${long[@]}" --num-iterations 50 --checkpoint-every 25 --checkpoint-dir stopping >/dev/null
does "train: patience goes on" "stopped at step 120: 2 tests" "$logreg" run -p "$pef" "${long[@]}" --checkpoint-dir stopping \
    --resume
refuses "train: a change without patience" 64 "give that too" "$logreg" run -p "$pef" --min-delta 1
refuses "train: patience of a test" 64 "--inference only tests" "$logreg" run -p "$pef" --inference --patience 2
refuses "train: patience of replicas" 64 "the others would not know" "$logreg" run -p "$pef" --data-parallel --patience 2
refuses "train: the best over the PEF" 1 "is the PEF itself" "$logreg" run -p "$pef" --data "$data" --save-best "$pef"

# ---- images ----
for model in resnet unet vit; do
    case $model in
    resnet) little=(--width 4) ;;
    unet) little=(--width 4 --groups 2) ;;
    vit) little=(--num-layers 1 --num-heads 2 --hidden-dim 16) ;;
    esac
    does "$model: compare with the reference" "agree with the reference" "$build/examples/$model" test "${little[@]}" -b 16
    does "$model: compile" "out/$model/$model.pef" "$build/examples/$model" compile "${little[@]}" -b 8
    does "$model: train on the digits" "test " "$build/examples/$model" run -p "out/$model/$model.pef" --data "$data" \
        --num-iterations 3
done
does "resnet: compare float64 with the reference" "agree with the reference" "$build/examples/resnet" test --width 4 -b 64 \
    --float64
does "resnet: compare inference with the reference" "all 2 tensors agree with the reference" "$build/examples/resnet" test \
    --width 4 -b 4 --inference
"$build/examples/unet" compile --num-classes 5 --output-folder five >/dev/null 2>&1
refuses "unet: more labels than classes" 1 "is not among the model's" "$build/examples/unet" run -p five/unet/unet.pef \
    --data "$data" --num-classes 5
refuses "unet: an image that cannot be halved" 64 "--image-size must be divisible" "$build/examples/unet" compile --image-size 30
refuses "unet: groups" 64 "--groups must divide --width" "$build/examples/unet" compile --groups 3
refuses "vit: patches beyond the image" 64 "--patch-size must divide --image-size" "$build/examples/vit" compile --patch-size 5
refuses "vit: heads do not divide the width" 64 "--num-heads must divide --hidden-dim" "$build/examples/vit" compile --num-heads 3

# ---- a language model ----
small=(--n-layer 1 --n-head 2 --n-embd 16 --block-size 16)
does "gpt2: compile" "out/gpt2/gpt2.pef" "$gpt2" compile "${small[@]}" -b 8
words=out/gpt2/gpt2.pef
does "gpt2: help names generate" "gpt2 generate --help" "$gpt2" --help
does "gpt2: train on the text" "perplexity" "$gpt2" run -p "$words" --data "$data" --num-iterations 5
does "gpt2: train on a file to JSON" '"test_perplexity"' "$gpt2" run -p "$words" --data "$data/text.txt" --num-iterations 5 \
    --json --save gpt2.safetensors
does "gpt2: hyperparameters of AdamW" "test loss" "$gpt2" run -p "$words" --data "$data" --num-iterations 2 --lr 0.01 \
    --beta1 0.8 --beta2 0.9 --eps 1e-6 --max-grad-norm 2
does "gpt2: compile for inference" "gpt2.pef" "$gpt2" compile "${small[@]}" -b 4 --inference --output-folder inf
does "gpt2: test the trained" "test loss" "$gpt2" run --inference -p inf/gpt2/gpt2.pef --data "$data" --load gpt2.safetensors
does "gpt2: compare with the reference" "h.0.attn.c_attn.weight.grad" "$gpt2" test "${small[@]}" -b 2
does "gpt2: compare SGD, dropout and logits with the reference" "logits" "$gpt2" test "${small[@]}" -b 2 --optimizer sgd \
    --dropout 0.1 --logits
does "gpt2: compare AMSGrad with the reference" "wte.weight.max_exp_avg_sq" "$gpt2" test "${small[@]}" -b 2 --amsgrad
deep=("${small[@]}" --n-layer 3 -b 8)
does "gpt2: compare what is computed again with the reference" "h.2.mlp.c_fc.weight.grad" "$gpt2" test "${deep[@]}" \
    --memory-budget 600000
does "gpt2: measure performance" "MFU" "$gpt2" measure-performance -p "$words" --num-iterations 5
does "gpt2: measure sections" "GRADNORM" "$gpt2" measure-sections -p "$words" --num-iterations 5
# generating: a cache goes on where a longer prompt would have begun, in bfloat16 too, and drawing repeats itself
words_of() { sed -n 's/.*"tokens": \[\(.*\)\].*/\1/p' "$1" | tr -d ' '; }
tiny=(--n-layer 2 --n-head 2 --n-embd 32 --vocab-size 50 --block-size 24 --seed 3 --json --output-folder out)
for how in "" "--precision bf16" "--temperature 0.9 --top-k 8"; do
    cases=$((cases + 1))
    "$gpt2" generate "${tiny[@]}" $how --prompt 7,1,4 --count 12 >out.txt 2>err.txt
    all=$(words_of out.txt)
    "$gpt2" generate "${tiny[@]}" $how --prompt 7,1,4 --count 12 --prompt-length 9 >again.txt 2>>err.txt
    [ "$(tr , '\n' <<<"$all" | wc -l)" = 12 ] && [ "$(words_of again.txt)" = "$all" ] ||
        fail "gpt2: generate $how: a prompt that is filled up"
    cases=$((cases + 1))
    [ -n "$how" ] && continue
    "$gpt2" generate "${tiny[@]}" --prompt "7,1,4,$(cut -d, -f1-5 <<<"$all")" --count 7 >again.txt 2>>err.txt
    [ "$(words_of again.txt)" = "$(cut -d, -f6- <<<"$all")" ] || fail "gpt2: generate: the cache and the prompt differ"
done
does "gpt2: generate, held against the machine" "of_bandwidth" "$gpt2" generate "${tiny[@]}" --prompt 7,1,4 --count 4 --measure
does "sambaflow: inspect two graphs" "2 graphs" "$sambaflow" inspect out/gpt2-generate/gpt2-generate.pef
does "sambaflow: two graphs as JSON" '"name": "decode"' "$sambaflow" inspect out/gpt2-generate/gpt2-generate.pef --json
does "sambaflow: run one of two graphs" "decode.next" "$sambaflow" run out/gpt2-generate/gpt2-generate.pef --graph-name decode
does "sambaflow: measure one of two graphs" "MFU" "$sambaflow" measure-performance out/gpt2-generate/gpt2-generate.pef \
    --graph-name decode --num-iterations 3
does "sambaflow: sections of one of two graphs" '"id": 1' "$sambaflow" measure-sections out/gpt2-generate/gpt2-generate.pef \
    --graph-name decode --num-iterations 3 --json
grep -q '"id": 0' out.txt && fail "sambaflow: sections of one of two graphs: another's"
refuses "sambaflow: measure none of two graphs" 1 "give it a graph_name of: \"prefill\", \"decode\"" "$sambaflow" \
    measure-performance out/gpt2-generate/gpt2-generate.pef
refuses "sambaflow: measure a graph that is not there" 1 "there is no graph \"decod\"" "$sambaflow" measure-sections \
    out/gpt2-generate/gpt2-generate.pef --graph-name decod
refuses "sambaflow: two graphs, and none named" 1 "give it a graph_name of: \"prefill\", \"decode\"" "$sambaflow" run \
    out/gpt2-generate/gpt2-generate.pef
refuses "sambaflow: a graph that is not there" 1 "there is no graph \"decod\"" "$sambaflow" run \
    out/gpt2-generate/gpt2-generate.pef --graph-name decod
refuses "gpt2: two graphs are no PEF of training" 1 "has 2 graphs and this program's PEFs have one" "$gpt2" run --inference \
    -p out/gpt2-generate/gpt2-generate.pef --data "$data"
refuses "gpt2: a prompt beyond the vocabulary" 2 "does not begin with a token from 0 to 49" "$gpt2" generate "${tiny[@]}" \
    --prompt 7,50
refuses "gpt2: more tokens than the cache" 2 "do not fit the cache" "$gpt2" generate "${tiny[@]}" --prompt 7 --count 40
refuses "gpt2: weights of another model" 1 "into wte.weight (50, 16): the shapes must be equal" "$gpt2" generate "${tiny[@]}" \
    --n-embd 16 --block-size 16 --prompt 1 --count 4 --weights gpt2.safetensors
# The address sanitizer takes terabytes of addresses for itself.
if grep -q fsanitize "$build/compile_commands.json"; then little_memory() { "$@"; }; else little_memory() \
    { (ulimit -d 300000; "$@"); }; fi
does "gpt2: 1.5 billion parameters compiled in 300 MB" "26.2 GiB" little_memory "$gpt2" compile --n-layer 48 --n-head 25 \
    --n-embd 1600 --block-size 1024 --vocab-size 50257 -b 1 --output-folder xl
printf 'caf\303\251%.0s' {1..300} >letters.txt
head -c 30 letters.txt >short.txt
head -c 100 letters.txt >few.txt
does "gpt2: any text" "test loss" "$gpt2" run -p "$words" --data letters.txt --num-iterations 5
"$gpt2" compile "${small[@]}" -b 8 --vocab-size 128 --output-folder ascii >/dev/null 2>&1
refuses "gpt2: a byte beyond the vocabulary" 1 "byte 195 at 3 is not among the model's 128 tokens" "$gpt2" run \
    -p ascii/gpt2/gpt2.pef --data letters.txt
refuses "gpt2: other sizes than compiled" 1 "(8, 16)" "$gpt2" run -p "$words" --block-size 32 --data "$data"
refuses "gpt2: another width than compiled" 1 "another graph" "$gpt2" run -p "$words" "${small[@]}" --n-embd 32 --data "$data"
refuses "gpt2: text too short" 1 "short.txt has 30 bytes" "$gpt2" run -p "$words" --data short.txt
refuses "gpt2: no text" 1 "no text 'nowhere'" "$gpt2" run -p "$words" --data nowhere
refuses "gpt2: batch larger than the text" 1 "compile with a smaller batch size" "$gpt2" run -p "$words" --data few.txt
refuses "gpt2: heads do not divide the width" 64 "--n-head must divide --n-embd" "$gpt2" compile "${small[@]}" -b 8 --n-head 3
refuses "gpt2: too small a memory budget" 1 "the least found for model 'gpt2' is" "$gpt2" compile "${deep[@]}" --memory-budget 100
refuses "gpt2: a memory budget of nothing" 64 "--memory-budget: expected bytes from 1" "$gpt2" compile --memory-budget 0
tiny=(--n-layer 1 --n-head 1 --n-embd 1 --block-size 1 --vocab-size 2 -b 1)
does "gpt2: least of everything" "agree with the reference" "$gpt2" test "${tiny[@]}"
does "gpt2: least of everything in bf16" "agree with the reference" "$gpt2" test "${tiny[@]}" --precision bf16
does "gpt2: a row a chunk" "agree with the reference" "$gpt2" test "${small[@]}" -b 2 --chunk-bytes 1
does "gpt2: a row a chunk, bf16, a budget" "agree with the reference" "$gpt2" test "${small[@]}" -b 2 --chunk-bytes 1 \
    --precision bf16 --memory-budget 600000
refuses "gpt2: chunks of nothing" 64 "--chunk-bytes: expected bytes from 1" "$gpt2" compile --chunk-bytes 0
refuses "gpt2: more than machines have" 1 "device memory of" "$gpt2" compile --vocab-size 16777216 --n-embd 1048576
printf 'a' >one.txt
: >empty.txt
refuses "gpt2: a text of one byte" 1 "one.txt has 1 bytes" "$gpt2" run -p "$words" --data one.txt
refuses "gpt2: a text of none" 1 "empty.txt has 0 bytes" "$gpt2" run -p "$words" --data empty.txt
refuses "gpt2: a device as text" 1 "not a regular file" "$gpt2" run -p "$words" --data /dev/zero
refuses "gpt2: dropout out of range" 64 "--dropout: expected a number from 0 to" "$gpt2" compile --dropout 1
refuses "gpt2: no layers" 64 "--n-layer: expected a whole number from 1" "$gpt2" compile --n-layer 0
refuses "gpt2: PEF of another model" 1 "input 'input'" "$gpt2" run -p "$pef" --data "$data"
refuses "gpt2: beta of SGD" 64 "--beta2: SGD has none: give --optimizer adamw or adam" "$gpt2" compile --optimizer sgd --beta2 0.9
refuses "gpt2: beta1 of 1" 64 "--beta1: expected a number in [0, 1)" "$gpt2" compile --beta1 1
tokens() { npy '<i8' '(8, 16)'; head -c 1024 /dev/zero | tr '\0' "$1"; }
tokens '\0' >tokens.npy
tokens '\1' >beyond.npy
does "gpt2: tokens from a file" "loss" "$sambaflow" run "$words" --input input=tokens.npy
refuses "gpt2: a token beyond the vocabulary" 1 "outside [0, 256) (embedding)" "$sambaflow" run "$words" --input input=beyond.npy
refuses "gpt2: a label beyond the vocabulary" 1 "outside [0, 256) (cross_entropy)" "$sambaflow" run "$words" \
    --input label=beyond.npy

# ---- usage ----
refuses "no command" 64 "give a command" "$sambaflow"
refuses "unknown command" 64 "'fly' is no command" "$sambaflow" fly
refuses "unknown option" 64 "there is no option --fly" "$sambaflow" run "$pef" --fly
refuses "no PEF" 64 "which PEF" "$sambaflow" inspect
refuses "two PEFs" 64 "one word too many" "$sambaflow" inspect "$pef" "$pef"
refuses "option of another command" 64 "--eval is not an option of inspect" "$sambaflow" inspect "$pef" --eval
refuses "input without file" 64 "expected NAME=FILE" "$sambaflow" run "$pef" --input image
refuses "hyperparameter without value" 64 "expected NAME=VALUE" "$sambaflow" run "$pef" --hyperparameter lr
refuses "hyperparameter no number" 64 "expected a number" "$sambaflow" run "$pef" --hyperparameter lr=fast
refuses "an input twice" 64 "--input: 'image' is given twice, as 'a.npy' and as 'b.npy'" "$sambaflow" run "$pef" -i image=a.npy \
    -i image=b.npy
refuses "two outputs to one file" 64 "--output: 'logits' and 'loss' would both be written to 'a.npy'" "$sambaflow" run "$pef" \
    -o logits=a.npy -o loss=a.npy
refuses "an output and weights to one file" 64 "--save and --output 'loss' would both be written to 'a.npy'" "$sambaflow" run \
    "$pef" -o loss=a.npy --save a.npy
refuses "a hyperparameter twice" 64 "--hyperparameter: 'lr' is given twice, as '1' and as '2'" "$sambaflow" run "$pef" \
    --hyperparameter lr=1 --hyperparameter lr=2
refuses "iterations no number" 64 "expected a whole number from 1" "$sambaflow" run "$pef" --num-iterations many
refuses "iterations zero" 64 "expected a whole number from 1" "$sambaflow" run "$pef" --num-iterations 0
refuses "types and ids" 64 "contradict" "$sambaflow" run "$pef" --section-types FWD --section-ids 0
refuses "app: no command" 64 "give a command" "$logreg"
refuses "app: unknown command" 64 "'fly' is no command" "$logreg" fly
refuses "app: batch size no number" 64 "--batch-size: expected a whole number" "$logreg" compile -b=ten
refuses "app: batch size zero" 64 "--batch-size: expected a whole number" "$logreg" compile -b 0
refuses "app: batch size overflows" 64 "--batch-size: expected a whole number" "$logreg" compile -b 99999999999999999999
refuses "app: microbatch does not divide" 64 "does not divide" "$logreg" compile -b 10 -mb 4
refuses "app: microbatch without number" 64 "requires an argument" "$logreg" compile -mb
refuses "app: contradicting steps" 64 "contradicts" "$logreg" compile -b 16 -mb 4 --grad-accumulation-steps 2
refuses "app: run without PEF" 64 "--pef FILE is missing" "$logreg" run
refuses "app: option of another command" 64 "--save is not an option of compile" "$logreg" compile --save x
refuses "app: negative lr" 64 "--lr: expected a number" "$logreg" compile --lr=-1
refuses "app: lr not finite" 64 "--lr: expected a number" "$logreg" compile --lr nan
refuses "app: unknown optimizer" 64 "expected sgd, adamw, adam" "$logreg" compile --optimizer adamant
refuses "app: unknown pass" 64 "--dump-after: expected one of all" "$logreg" compile --dump-after nothing
refuses "app: momentum for AdamW" 64 "--momentum: AdamW has none: give --optimizer sgd" "$logreg" compile --optimizer adamw \
    --momentum 0.9
refuses "app: longer warm-up than schedule" 64 "--warmup-steps 9 are more than --total-steps 5" "$logreg" run -p "$pef" \
    --warmup-steps 9 --total-steps 5
refuses "app: end of no schedule" 64 "give --lr-schedule linear or cosine too" "$logreg" run -p "$pef" --min-lr 0.1
refuses "app: length of no schedule" 64 "give --lr-schedule linear or cosine too" "$logreg" run -p "$pef" --total-steps 5
for option in --lr=0.1 --num-epochs=2 --warmup-steps=3 --momentum=0.5; do
    refuses "app: $option of inference" 64 "${option%=*} is training's: leave it or --inference out" "$logreg" run -p "$pef" \
        --inference "$option"
done
refuses "app: unknown schedule" 64 "expected constant, linear or cosine" "$logreg" run -p "$pef" --lr-schedule sawtooth
refuses "app: learning rate of inference" 64 "--lr is training's" "$logreg" compile --inference --lr 0.1
refuses "app: optimizer of inference" 64 "--optimizer is training's" "$logreg" compile --inference --optimizer sgd
refuses "app: own option out of range" 64 "--num-classes: expected a whole number from 2" "$logreg" compile --num-classes 1
refuses "app: data parallel" 1 "compile it with data_parallel" "$logreg" run -p "$pef" --data-parallel
refuses "app: replicas of a file that is not there" 64 "--distlearn-config: there is no file 'replicas.yaml'" "$logreg" run \
    -p "$pef" --distlearn-config replicas.yaml
refuses "app: replicas by a file" 1 "compile it with data_parallel" "$logreg" run -p "$pef" --distlearn-config "$pef"
refuses "app: another number of replicas" 1 "--world-size is 2, and the replicas are 1: start it by mpirun -n 2" "$logreg" run \
    -p "$pef" --data-parallel --world-size 2
refuses "app: a number of replicas alone" 64 "--world-size says how many replicas train together" "$logreg" run -p "$pef" \
    --world-size 2
refuses "app: reduce on rdu alone" 1 "it means nothing without it" "$logreg" run -p "$pef" --reduce-on-rdu
refuses "app: unknown option" 64 "logreg: there is no option --batchsize: did you mean --batch-size?" "$logreg" compile \
    --batchsize 3
refuses "app: unknown option with a value" 64 "there is no option --pef-nmae: did you mean --pef-name?" "$logreg" compile -b 4 \
    --pef-nmae=x
refuses "app: an option without its value" 64 "option '--num-tiles' requires an argument" "$logreg" compile --num-tiles
elsewhere=(--o0 --o1 --o3 --debug --mac-v2 --num-tiles 4 --log-level info --resources-scaling-factors 0.7 0.8 0.8 --arch sn10
    --compiler-mode full --optimization-rules rules.yaml --compiler-configs-file settings.json --tiling-accum --world-size 2
    --distlearn-config replicas.yaml)
does "app: options of another device" "PEF" "$logreg" "${elsewhere[@]}" compile -b 4 -p elsewhere.pef
for option in $(printf '%s\n' "${elsewhere[@]}" | grep -e '^--'); do
    grep -qE -- "^logreg: warning: .*$option[,:].* without effect on this device, a CPU$" err.txt ||
        fail "app: options of another device: $option is not named"
done
[ "$(grep -c 'without effect' err.txt)" = 1 ] || fail "app: options of another device: named more than once"
"$logreg" compile -b 4 -p usual.pef >out.txt 2>err.txt && cmp -s usual.pef elsewhere.pef ||
    fail "app: options of another device: another PEF"
does "app: spatial" "FWD+BCKWD" "$logreg" compile --mapping spatial -p spatial.pef
does "app: spatial: compare with the reference" "agree with the reference" "$logreg" test --mapping spatial -b 8
does "app: spatial: forward alone" "samples" "$logreg" measure-performance --mapping spatial -p spatial.pef --inference \
    --num-iterations 3
for way in "$sambaflow measure-sections spatial.pef" "$sambaflow measure-sections $pef" "$logreg measure-sections -p $pef"; do
    does "FWD alone: ${way#"$build/"}" "FWD" $way --inference --num-iterations 3
    grep -qE 'BCKWD|OPT' out.txt && fail "FWD alone: ${way#"$build/"}: others too"
done
refuses "app: spatial of another PEF" 1 "was compiled with mapping 'section'" "$logreg" measure-sections --mapping spatial \
    -p "$pef"
refuses "app: spatial does not fit" 1 "mapping 'spatial' keeps FWD and BCKWD in fast memory at once" "$logreg" compile \
    --mapping spatial --fast-memory 1000
refuses "app: a stage does not fit" 1 "fast memory of 1000 bytes cannot hold stage 0" "$logreg" compile --fast-memory 1000
refuses "app: no fast memory" 64 "--fast-memory" "$logreg" compile --fast-memory 0
does "app: sections of modules" "h.0" "$gpt2" compile "${small[@]}" -b 8 --fast-memory 170000 -p cut.pef
does "app: sections of modules: compare with the reference" "agree with the reference" "$gpt2" test "${small[@]}" -b 2 \
    --fast-memory 70000

# ---- PEFs that are none ----
cp "$pef" good.pef
refuses "missing file" 1 "nowhere.pef" "$sambaflow" inspect nowhere.pef
refuses "directory as file" 1 "is a folder and no PEF" "$sambaflow" inspect .
refuses "app: missing file" 1 "nowhere.pef" "$logreg" run -p nowhere.pef
size=$(stat -c %s good.pef)
for part in 0 1 7 16 $((size / 2)) $((size - 1)); do
    head -c "$part" good.pef >cut.pef
    refuses "PEF cut after $part bytes" 1 "cut.pef" "$sambaflow" run cut.pef
done
{ head -c $((size / 2)) good.pef; printf 'Z'; tail -c +$((size / 2 + 2)) good.pef; } >flipped.pef
refuses "PEF with a changed byte" 1 "flipped.pef" "$sambaflow" inspect flipped.pef
echo "no PEF at all" >text.pef
refuses "text as PEF" 1 "text.pef" "$sambaflow" inspect text.pef

# ---- names, shapes, types ----
refuses "unknown input" 1 "image, label" "$sambaflow" run "$pef" --input picture=logits.npy
refuses "unknown output" 1 "loss" "$sambaflow" run "$pef" --output nothing=x.npy
refuses "wrong shape" 1 "(100, 784)" "$sambaflow" run "$pef" --input image=logits.npy
refuses "wrong dtype" 1 "int64" "$sambaflow" run "$pef" --input label=logits.npy
refuses "missing input file" 1 "nowhere.npy" "$sambaflow" run "$pef" --input image=nowhere.npy
refuses "input file of no known kind" 1 "image.jpeg" "$sambaflow" run "$pef" --input image=image.jpeg
refuses "unknown hyperparameter" 1 "lr" "$sambaflow" run "$pef" --hyperparameter speed=1
refuses "unknown section type" 1 "FWD" "$sambaflow" run "$pef" --section-types FWD,SIDEWAYS
refuses "section type not in the PEF" 1 "FWD" "$sambaflow" run inf/logreg/logreg.pef --section-types BCKWD
refuses "section id not in the PEF" 1 "99" "$sambaflow" run "$pef" --section-ids 99
refuses "unknown ISA" 1 "avx1024" "$sambaflow" run "$pef" --isa avx1024
refuses "unknown ISA in the environment" 1 "avx1024" env SAMBAFLOW_ISA=avx1024 "$sambaflow" run "$pef"
refuses "weights that are none" 1 "text.pef" "$sambaflow" run "$pef" --load text.pef
"$lenet" compile >/dev/null 2>&1
"$sambaflow" run out/lenet/lenet.pef --save lenet.safetensors >/dev/null 2>&1
refuses "weights of another model" 1 "lin_layer.weight" "$sambaflow" run "$pef" --load lenet.safetensors
refuses "app: PEF of another model" 1 "image" "$logreg" run -p out/lenet/lenet.pef --data "$data"
refuses "app: another batch size" 1 "batch size 100" "$logreg" run -b 10 -p "$pef" --data "$data"
refuses "app: another number of runs in a step" 1 "compiled for 1 runs in a step but --grad-accumulation-steps 2 was given" \
    "$logreg" run --grad-accumulation-steps 2 -p "$pef" --data "$data"
refuses "app: another number of runs, with a batch" 1 "batch size 64, microbatch size 16" "$logreg" run -b 64 \
    --grad-accumulation-steps 2 -p app.pef --data "$data"
"$logreg" compile -b 9 --grad-accumulation-steps 3 -p thrice.pef >/dev/null
does "app: the PEF's number of runs in a step" "test accuracy" "$logreg" run --grad-accumulation-steps 3 -p thrice.pef \
    --data "$data" --num-iterations 2
refuses "app: other classes" 1 "another graph" "$logreg" run --num-classes 12 -p "$pef" --data "$data"
refuses "app: inference PEF cannot train" 1 "compiled with --inference" "$logreg" run -p inf/logreg/logreg.pef --data "$data"
does "app: momentum and dampening, compiled without" "test accuracy 8" "$logreg" run --momentum 0.5 --dampening 0.1 -p "$pef" \
    --data "$data"
refuses "app: beta1 of sgd" 1 "beta1" "$logreg" run --beta1 0.5 -p "$pef" --data "$data"

# ---- digits ----
mkdir empty short wrong few
refuses "no digits" 1 "no digits in 'empty'" "$logreg" run -p "$pef" --data empty
refuses "no data folder" 1 "no digits in 'nowhere'" "$logreg" run -p "$pef" --data nowhere
for file in "$data"/*; do
    case $file in
    *.gz) gzip -dc "$file" >"short/$(basename "${file%.gz}")" ;;
    *ubyte) cp "$file" short/ ;;
    esac
done
cp short/* wrong/
cp short/* few/
images=$(ls short/*images* | head -1)
labels=$(ls short/*labels* | head -1)
head -c 100000 "$images" >cut && mv cut "$images"
refuses "IDX file cut short" 1 "$images" "$logreg" run -p "$pef" --data short
printf '\x63' | dd of="wrong/$(basename "$labels")" bs=1 seek=20 conv=notrunc 2>/dev/null
refuses "label out of range" 1 "label 99" "$logreg" run -p "$pef" --data wrong
printf '\x00\x00\x08\x01\x00\x00\x00\x02\x00\x01' >"few/$(basename "$labels")"
refuses "fewer labels than images" 1 "2 labels" "$logreg" run -p "$pef" --data few

# ---- checkpoints ----
few=(run -p "$pef" --data "$data" --seed 3)
does "checkpoints: save" "test accuracy" "$logreg" "${few[@]}" --num-iterations 9 --checkpoint-dir points --checkpoint-every 4 \
    --save whole.safetensors
cases=$((cases + 1))
[ "$(echo points/*)" = "points/checkpoint-8 points/checkpoint-9" ] || { ls points >out.txt; fail "checkpoints: the two newest"; }
refuses "checkpoints: of another run" 1 "has checkpoints already, the newest of step 9: give --resume" "$logreg" "${few[@]}" \
    --checkpoint-dir points
does "checkpoints: stop early" "test accuracy" "$logreg" "${few[@]}" --num-iterations 5 --checkpoint-dir early --resume
does "checkpoints: go on" "resumed from early/checkpoint-5, the newest checkpoint that is whole" "$logreg" run -p "$pef" \
    --data "$data" --num-iterations 9 --checkpoint-dir early --resume --save gone.safetensors
same "checkpoints: the same weights" whole.safetensors gone.safetensors
does "checkpoints: nothing left to do" "test accuracy" "$logreg" "${few[@]}" --num-iterations 9 --checkpoint-dir early --resume
does "checkpoints: none yet" "no checkpoint in fresh: the training starts" "$logreg" "${few[@]}" --num-iterations 1 \
    --checkpoint-dir fresh --resume
refuses "checkpoints: another seed" 1 "is of a training with --seed 3: leave --seed 4 out" "$logreg" run -p "$pef" \
    --data "$data" --seed 4 --checkpoint-dir points --resume
cp -r early stray
echo text >stray/checkpoint-300
does "checkpoints: a file with the name of one" "resumed from stray/checkpoint-9" "$logreg" "${few[@]}" --num-iterations 9 \
    --checkpoint-dir stray --resume --keep 1
same "checkpoints: that file" stray/checkpoint-300 <(echo text)
schedule=(--lr-schedule cosine --warmup-steps 6 --total-steps 20 --min-lr 0.001)
does "checkpoints: a schedule" "test accuracy" "$logreg" "${few[@]}" "${schedule[@]}" --num-iterations 9 \
    --save scheduled.safetensors
does "checkpoints: a schedule, stopped" "test accuracy" "$logreg" "${few[@]}" "${schedule[@]}" --num-iterations 4 \
    --checkpoint-dir scheduled
cp -r scheduled again
does "checkpoints: the schedule goes on without its options" "resumed from scheduled/checkpoint-4" "$logreg" "${few[@]}" \
    --num-iterations 9 --checkpoint-dir scheduled --resume --save gone.safetensors
same "checkpoints: the same weights by the schedule" scheduled.safetensors gone.safetensors
does "checkpoints: the schedule goes on with its options" "resumed from again/checkpoint-4" "$logreg" "${few[@]}" \
    "${schedule[@]}" --num-iterations 9 --checkpoint-dir again --resume --save gone.safetensors
same "checkpoints: the same weights by the schedule given again" scheduled.safetensors gone.safetensors
refuses "checkpoints: another schedule" 1 "with --lr-schedule cosine: leave --lr-schedule linear out" "$logreg" "${few[@]}" \
    --lr-schedule linear --checkpoint-dir again --resume
refuses "checkpoints: another warm-up" 1 "with --warmup-steps 6: leave --warmup-steps 7 out" "$logreg" "${few[@]}" \
    --warmup-steps 7 --checkpoint-dir again --resume
refuses "checkpoints: another end of the schedule" 1 "with --min-lr 0.001: leave --min-lr 0.1 out" "$logreg" "${few[@]}" \
    --lr-schedule cosine --min-lr 0.1 --checkpoint-dir again --resume
refuses "checkpoints: a schedule where there was none" 1 "with --lr-schedule constant: leave --lr-schedule cosine out" "$logreg" \
    "${few[@]}" --lr-schedule cosine --checkpoint-dir points --resume
"$logreg" compile -b 64 --output-folder b64 >/dev/null 2>&1
refuses "checkpoints: another batch size" 1 "100 a step; this one has 4000 and 64" "$logreg" run -b 64 -p b64/logreg/logreg.pef \
    --data "$data" --checkpoint-dir points --resume
"$lenet" compile -b 100 --output-folder b100 >/dev/null 2>&1
refuses "checkpoints: another model" 1 \
    'is of graph "logreg" and has a tensor "lin_layer.bias", which PEF of graph "lenet" does not have; nothing was loaded' \
    "$lenet" run -p b100/lenet/lenet.pef --data "$data" -b 100 --checkpoint-dir points --resume
printf 'Z' | dd of=points/checkpoint-9/model.safetensors bs=1 seek=300 conv=notrunc 2>/dev/null
does "checkpoints: a damaged one" "resumed from points/checkpoint-8, the newest" "$logreg" "${few[@]}" --num-iterations 9 \
    --checkpoint-dir points --resume --save gone.safetensors
cases=$((cases + 1))
grep -q 'passed over: "points/checkpoint-9" is damaged: points/checkpoint-9/model.safetensors has other bytes' err.txt ||
    fail "checkpoints: the damaged one is named"
same "checkpoints: the same weights after that" whole.safetensors gone.safetensors
rm points/checkpoint-*/model.safetensors
refuses "checkpoints: all damaged" 1 "has no checkpoint that is whole" "$logreg" "${few[@]}" --num-iterations 9 \
    --checkpoint-dir points --resume
does "checkpoints: in pieces" "test accuracy" "$logreg" "${few[@]}" --num-iterations 3 --checkpoint-dir pieces --shard-size 1000
rm pieces/checkpoint-3/model-00001-of-00002.safetensors
refuses "checkpoints: a missing piece" 1 "its file model-00001-of-00002.safetensors is missing" "$logreg" "${few[@]}" \
    --checkpoint-dir pieces --resume
refuses "checkpoints: no folder" 1 "good.pef/points\": Not a directory" "$logreg" "${few[@]}" --checkpoint-dir good.pef/points
refuses "checkpoints: without one" 64 "--resume is of checkpoints: give --checkpoint-dir FOLDER too" "$logreg" "${few[@]}" \
    --resume
refuses "checkpoints: keep without one" 64 "--keep is of checkpoints" "$logreg" "${few[@]}" --keep 3
refuses "checkpoints: of inference" 64 "--checkpoint-dir is training's" "$logreg" "${few[@]}" --inference --checkpoint-dir points
refuses "checkpoints: and a file" 64 "give one of them" "$logreg" "${few[@]}" --resume --checkpoint-dir points \
    --load weights.safetensors
refuses "checkpoints: no number" 64 "--checkpoint-every: expected a whole number from 1" "$logreg" "${few[@]}" \
    --checkpoint-dir points --checkpoint-every 0

# ---- no room ----
refuses "standard output is full" 1 "standard output could not be written" bash -c '"$1" inspect "$2" >/dev/full' \
    - "$sambaflow" "$pef"
refuses "app: folder to save in is missing" 1 "nowhere" "$logreg" run -p "$pef" --data "$data" --save nowhere/weights.safetensors
refuses "folder of the output is missing" 1 "nowhere" "$sambaflow" run "$pef" --output logits=nowhere/logits.npy
"$logreg" compile --output-folder both >/dev/null
rm both/logreg/logreg.pef.log
mkdir both/logreg/logreg.pef.log
cp both/logreg/logreg.pef both.copy
refuses "the log cannot be written" 1 'cannot write "both/logreg/logreg.pef.log": it is a directory' "$logreg" compile -b 7 \
    --output-folder both
same "PEF when its log cannot be written" both/logreg/logreg.pef both.copy
mkdir both.pef.log
cp both.copy both.pef
refuses "a file's log cannot be written" 1 'cannot write "both.pef.log": it is a directory' "$logreg" compile -b 7 -p both.pef
same "file when its log cannot be written" both.pef both.copy
rmdir both/logreg/logreg.pef.log && mkdir both/logreg/old && mv both/logreg/logreg.pef both/logreg/old/ &&
    mkdir both/logreg/logreg.pef
echo old >both/logreg/logreg.pef.log && echo old >both.log
refuses "the PEF cannot be written" 1 'cannot write "both/logreg/logreg.pef": it is a directory' "$logreg" compile -b 7 \
    --output-folder both
same "log when its PEF cannot be written" both/logreg/logreg.pef.log both.log
# Before anything runs: what is wrong with a path is no matter of the last second.
slow() { refuses "$@"; [ -s out.txt ] && fail "$1: it ran first"; }
slow "app: a folder to save in" 1 '--save: cannot write ".": it is a directory' "$logreg" run -p "$pef" --data "$data" \
    --num-epochs 1 --save .
slow "app: no name to save under" 1 '--save: cannot write "inf/": it is a directory' "$logreg" run -p "$pef" --data "$data" \
    --num-epochs 1 --save inf/
slow "output into no folder" 1 '--output: cannot write "/nonexist/x.npy"' timeout 5 "$sambaflow" run "$pef" --num-iterations \
    1000000 -o logits=/nonexist/x.npy
slow "weights into no folder" 1 '--save: cannot write "/nonexist/x"' timeout 5 "$sambaflow" run "$pef" --num-iterations 1000000 \
    --save /nonexist/x
slow "times into no folder" 1 '--trace: cannot write "/nonexist/x.json"' timeout 5 "$sambaflow" run "$pef" --num-iterations \
    1000000 --profile summary --trace /nonexist/x.json
# Nor is the PEF overwritten, however it is spelled.
ln -s good.pef link.pef
ln good.pef hard.pef
cp good.pef good.copy
slow "report: the PEF as its page" 1 "--output \"./good.pef\" is the PEF itself, 'good.pef', and would overwrite it" \
    "$sambaflow" report good.pef -o ./good.pef
slow "the PEF as an output" 1 "--output \"hard.pef\" is the PEF itself" "$sambaflow" run good.pef -o logits=hard.pef
slow "the PEF as weights" 1 "--save \"link.pef\" is the PEF itself" "$sambaflow" run good.pef --save link.pef
slow "the PEF as times" 1 "--trace \"good.pef\" is the PEF itself" "$sambaflow" run link.pef --profile summary --trace good.pef
slow "app: the PEF as weights" 1 "--save \"$work/good.pef\" is the PEF itself" "$logreg" run -p good.pef --data "$data" --save \
    "$work/good.pef"
same "the PEF after that" good.pef good.copy
# A limit on file sizes fails as a full disk does, without needing to be root.
limited() { (trap '' XFSZ; ulimit -f 4; "$@"); }
cp logits.npy logits.copy
dd if=/dev/zero of=big.bin bs=1024 count=64 2>/dev/null
cp weights.safetensors weights.copy
cp app.pef app.copy
refuses "weights do not fit" 1 "weights.safetensors" limited "$sambaflow" run "$pef" --save weights.safetensors
same "weights after that" weights.safetensors weights.copy
refuses "PEF does not fit" 1 "app.pef" limited "$lenet" compile -p app.pef
same "PEF after that" app.pef app.copy
if mkdir full && mount -t tmpfs -o size=16k tmpfs full 2>/dev/null; then
    mounted=$work/full
    printf 'old' >full/logits.npy
    printf 'old' >full.copy
    dd if=/dev/zero of=full/rest bs=1024 count=64 2>/dev/null
    refuses "disk is full" 1 "full/logits.npy" "$sambaflow" run "$pef" --output logits=full/logits.npy
    same "output after that" full/logits.npy full.copy
    rm full/rest
    refuses "disk is full of checkpoints" 1 "No space left on device" "$logreg" "${few[@]}" --num-iterations 3 \
        --checkpoint-dir full
    umount full && mounted=
else
    echo "skip: a full disk (mounting a small file system needs root)"
fi
leftovers=$(find . -name '*.tmp*' -o -name '*.??????' -path './app.pef.*' | head -5)
cases=$((cases + 1))
[ -z "$leftovers" ] || { echo "$leftovers" >out.txt; : >err.txt; fail "temporary files are left over"; }

echo "$((cases - failures)) of $cases cases passed"
[ "$failures" -eq 0 ]
