// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/calcgraph/replay"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/worlds"
)

var (
	firstSeed = flag.Uint64("seed", 1, "first seed of the random worlds")
	seedCount = flag.Int("seeds", 40, "how many random worlds to run")
)

// trace is the output of a graph: the text of all batches, the rejected resources and the doubts.
type trace struct {
	batches  bytes.Buffer
	rejected []string
	doubts   []string
}

func (t *trace) out(_ context.Context, b dataplane.Batch) error {
	_, err := fmt.Fprintf(&t.batches, "batch\n%s\n", b)
	return err
}

func (t *trace) hooks() calcgraph.Hooks {
	return calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { t.rejected = append(t.rejected, recorded(key)+": "+err.Error()) },
		Doubt: func(key policy.Key, doubt *policy.DoubtError) {
			if doubt == nil {
				t.doubts = append(t.doubts, key.String()+": none")
			} else {
				t.doubts = append(t.doubts, key.String()+": "+doubt.Error())
			}
		},
	}
}

// live is a runner that records, with its graph.
type live struct {
	trace
	recording bytes.Buffer
	runner    *calcgraph.Runner
	cancel    func()
	ended     chan error
}

// start runs a runner in a synctest bubble.
func start(t *testing.T, cfg calcgraph.Config) *live {
	l := &live{ended: make(chan error)}
	cfg.Hooks = l.hooks()
	graph, err := calcgraph.New(cfg)
	require.NoError(t, err)
	l.runner, err = calcgraph.NewRunner(calcgraph.RunnerConfig{
		Graph: graph, Out: l.out, Record: &l.recording,
		Hooks: calcgraph.RunnerHooks{RecordFailed: func(err error) { t.Error(err) }},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	go func() { l.ended <- l.runner.Run(ctx) }()
	return l
}

func (l *live) update(t *testing.T, updates ...policy.Update) {
	t.Helper()
	require.NoError(t, l.runner.Update(t.Context(), updates))
}

func (l *live) stop(t *testing.T) {
	t.Helper()
	synctest.Wait()
	l.cancel()
	require.ErrorIs(t, <-l.ended, context.Canceled)
}

func play(t *testing.T, recording []byte) *trace {
	t.Helper()
	again := &trace{}
	require.NoError(t, replay.Run(t.Context(), bytes.NewReader(recording), replay.Config{
		Hooks: again.hooks(), Out: again.out,
	}))
	return again
}

// recorded returns a key as a recording has it: without bytes that are not UTF-8.
func recorded(k policy.Key) string {
	k.Namespace, k.Name = strings.ToValidUTF8(k.Namespace, "\uFFFD"), strings.ToValidUTF8(k.Name, "\uFFFD")
	return k.String()
}

// S100, S101, S167: a recording results in the same batches, rejections and doubts as the live run,
// byte for byte. The worlds of the test are random, with invalid objects.
func TestReplayEqualsLiveRun(t *testing.T) {
	n := *seedCount
	if testing.Short() {
		n /= 5
	}
	doubts := 0
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { doubts += sameBytes(t, seed) })
		})
	}
	require.Positive(t, doubts)
}

// sameBytes runs one world, and returns the number of reported doubts.
func sameBytes(t *testing.T, seed uint64) int {
	rng := rand.New(rand.NewPCG(seed, 3))
	gen := worlds.New(worlds.Config{Seed: seed})
	l := start(t, calcgraph.Config{Node: worlds.Node, Names: seed%2 == 0, UnreachableRoutes: seed%3 == 0})
	inSyncAt := rng.IntN(40)
	for i := range 150 {
		var updates []policy.Update
		for range 1 + rng.IntN(3) {
			updates = append(updates, withoutExactJSON(rng, gen.Update()))
		}
		l.update(t, updates...)
		if i == inSyncAt {
			require.NoError(t, l.runner.InSync(t.Context()))
		}
		if rng.IntN(3) == 0 {
			synctest.Wait() // Out has returned
		}
	}
	l.stop(t)
	require.NotEmpty(t, l.rejected, "seed %d", seed)
	again := play(t, l.recording.Bytes())
	require.Equal(t, l.batches.String(), again.batches.String(), "seed %d", seed)
	require.Equal(t, l.rejected, again.rejected, "seed %d", seed)
	require.Equal(t, l.doubts, again.doubts, "seed %d", seed)
	return len(l.doubts)
}

// withoutExactJSON changes some updates so that they have no JSON form, or one that decodes to
// another resource.
func withoutExactJSON(rng *rand.Rand, u policy.Update) policy.Update {
	if rng.IntN(8) != 0 {
		return u
	}
	switch r := u.Resource.(type) {
	case *policy.Policy:
		switch rng.IntN(3) {
		case 0:
			nan := math.NaN()
			r.Order = &nan
		case 1:
			r.Types = []policy.Type{"iNGRESS", "EGRESS"}
		default:
			u.Resource = (*policy.Policy)(nil)
		}
	case *policy.Tier:
		infinite := math.Inf(1)
		r.Order = &infinite
	case *policy.Profile:
		u.Key.Name += "\xff"
	case *policy.NetworkSet:
		r.Nets = append(r.Nets, netip.MustParsePrefix("10.0.0.1/8")) // decodes to 10.0.0.0/8
	case *policy.WorkloadEndpoint:
		switch rng.IntN(3) {
		case 0:
			r.MAC = "AA:BB:CC:00:00:01"
		case 1:
			r.Labels = map[string]string{"role": "\xff"}
		default:
			u.Key.Name = "w-other"
		}
	}
	return u
}

const header = `{"recording":"wayleave/calcgraph","version":1,"node":"n1"}` + "\n"

// short is a recording of one endpoint.
const short = header +
	`{"set":{"kind":"WorkloadEndpoint","name":"w","node":"n1","interface":"wl1","addresses":["10.0.0.1"]}}` + "\n" +
	`{"inSync":true}` + "\n" +
	`{"flush":true}` + "\n" +
	`{"delete":{"kind":"WorkloadEndpoint","name":"w"}}` + "\n" +
	`{"flush":true}` + "\n"

// If a recording is cut off at any byte, all complete lines are played, and the error reports an
// incomplete line.
func TestTruncatedRecordingIsPlayedToItsEnd(t *testing.T) {
	whole := play(t, []byte(short)).batches.String()
	require.Contains(t, whole, "remove endpoint WorkloadEndpoint/w")
	for n := range len(short) {
		got := &trace{}
		err := replay.Run(t.Context(), strings.NewReader(short[:n]), replay.Config{Out: got.out})
		lines := strings.Count(short[:n], "\n")
		switch {
		case n == 0:
			require.ErrorIs(t, err, replay.ErrNoHeader)
		case short[n-1] == '\n':
			require.NoError(t, err)
		default:
			require.ErrorIs(t, err, replay.ErrTruncated)
			require.ErrorContains(t, err, fmt.Sprintf("replay: line %d: ", lines+1))
		}
		require.True(t, strings.HasPrefix(whole, got.batches.String()), "at %d", n)
		require.Equal(t, lines >= 4, got.batches.Len() > 0, "at %d", n)
	}
}

// A line that is not exactly one step is an error with its number. The lines before it are played.
func TestDamagedRecordingIsAnError(t *testing.T) {
	for _, line := range []string{
		"", " ", "null", "{}", "[]", `"flush"`, "{", `{"flush":true`, `{"flush":true}}`,
		`{"flush":true} {"flush":true}`, `{"flush":false}`, `{"flush":1}`, `{"flush":true,"inSync":true}`,
		`{"flushed":true}`, `{"set":null}`, `{"set":{}}`, `{"set":{"kind":"Tier"}}x`,
		`{"set":{"kind":"Nothing","name":"x"}}`, `{"set":{"kind":"Tier","name":"x","order":"first"}}`,
		`{"set":{"kind":"Tier","name":"x","unknown":1}}`, `{"delete":"Tier/x"}`,
		`{"delete":{"kind":"Tier","name":"x","uid":1}}`, `{"reject":{"kind":"Tier","name":"x"}}`, `{"error":"why"}`,
		`{"flush":true,"error":"why"}`, "\x00\x00\x00", "\xff",
	} {
		recording := short + line + "\n" + `{"flush":true}` + "\n"
		got := &trace{}
		err := replay.Run(t.Context(), strings.NewReader(recording), replay.Config{Out: got.out})
		var lineError *replay.LineError
		require.ErrorAs(t, err, &lineError, "%q", line)
		require.Equal(t, 7, lineError.Line, "%q", line)
		require.ErrorContains(t, err, "replay: line 7: ", "%q", line)
		require.Equal(t, play(t, []byte(short)).batches.String(), got.batches.String())
	}
}

func TestHeader(t *testing.T) {
	for _, text := range []string{
		"", "\n", "{}\n", "x\n", `{"flush":true}` + "\n",
		`{"recording":"something","version":1,"node":"n1"}` + "\n",
		`{"recording":"wayleave/calcgraph","version":2,"node":"n1"}` + "\n",
		`{"recording":"wayleave/calcgraph","version":1}` + "\n",
		`{"recording":"wayleave/calcgraph","version":1,"node":"n1","speed":2}` + "\n",
	} {
		_, err := replay.Read(strings.NewReader(text))
		require.ErrorIs(t, err, replay.ErrNoHeader, "%q", text)
		require.ErrorContains(t, err, "replay: line 1: ")
	}
	_, err := replay.Read(strings.NewReader(header[:20]))
	require.ErrorIs(t, err, replay.ErrTruncated)
}

// TestConfigIsRecorded: the header has all fields of the configuration that a graph's output
// depends on, including future ones.
func TestConfigIsRecorded(t *testing.T) {
	var cfg calcgraph.Config
	v := reflect.ValueOf(&cfg).Elem()
	for i := range v.NumField() {
		switch field := v.Field(i); field.Kind() {
		case reflect.String:
			field.SetString("some-" + v.Type().Field(i).Name)
		case reflect.Bool:
			field.SetBool(true)
		default:
			require.Equal(t, "Hooks", v.Type().Field(i).Name, "a field of another type")
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := start(t, cfg)
		require.NoError(t, l.runner.InSync(t.Context()))
		l.stop(t)
		rec, err := replay.Read(&l.recording)
		require.NoError(t, err)
		require.Equal(t, cfg, rec.Config())
	})
}

// endless is a line that never ends.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	e.read += len(p)
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// TestEndlessLine: the reader stops at the limit.
func TestEndlessLine(t *testing.T) {
	line := &endless{}
	rec, err := replay.Read(io.MultiReader(strings.NewReader(header), line))
	require.NoError(t, err)
	for _, err := range rec.Steps() {
		require.ErrorIs(t, err, replay.ErrTooLong)
		require.ErrorContains(t, err, "replay: line 2: ")
	}
	require.Less(t, line.read, calcgraph.MaxRecordLine+1<<20)
}

// broken is a reader that fails.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

func TestRunErrors(t *testing.T) {
	fails := errors.New("it fails")
	out := func(context.Context, dataplane.Batch) error { return nil }
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		in   io.Reader
		out  func(context.Context, dataplane.Batch) error
		want error
	}{
		"the dataplane": {
			t.Context(), strings.NewReader(short),
			func(context.Context, dataplane.Batch) error { return fails }, fails,
		},
		"the reader":            {t.Context(), io.MultiReader(strings.NewReader(short), broken{fails}), out, fails},
		"the reader, at once":   {t.Context(), broken{fails}, out, fails},
		"the context":           {done, strings.NewReader(short), out, context.Canceled},
		"the reader's own size": {t.Context(), io.MultiReader(strings.NewReader(short+"{"), broken{fails}), out, fails},
	} {
		t.Run(name, func(t *testing.T) {
			require.ErrorIs(t, replay.Run(test.ctx, test.in, replay.Config{Out: test.out}), test.want)
		})
	}
	require.ErrorContains(t, replay.Run(t.Context(), strings.NewReader(short), replay.Config{}), "Out: required")
}

// TestSteps: a caller may stop and continue.
func TestSteps(t *testing.T) {
	rec, err := replay.Read(strings.NewReader(short))
	require.NoError(t, err)
	require.Equal(t, calcgraph.Config{Node: "n1"}, rec.Config())
	var kinds []replay.StepKind
	var lines []int
	for range 10 {
		for step, err := range rec.Steps() {
			require.NoError(t, err)
			kinds, lines = append(kinds, step.Kind), append(lines, step.Line)
			break
		}
	}
	require.Equal(t, []replay.StepKind{
		replay.StepUpdate, replay.StepInSync, replay.StepFlush, replay.StepUpdate, replay.StepFlush,
	}, kinds)
	require.Equal(t, []int{2, 3, 4, 5, 6}, lines)
}

// TestAnotherNode: a recording can be played for another node.
func TestAnotherNode(t *testing.T) {
	got := &trace{}
	require.NoError(t, replay.Run(t.Context(), strings.NewReader(short), replay.Config{
		Node: "n2", Out: got.out,
	}))
	require.NotContains(t, got.batches.String(), "WorkloadEndpoint/w")
	require.Contains(t, got.batches.String(), "in-sync")
}

// FuzzRead: no text makes the reader panic or read on after an error.
func FuzzRead(f *testing.F) {
	f.Add([]byte(short))
	f.Add([]byte(header + `{"reject":{"kind":"Tier","name":"x"},"error":"why"}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := replay.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		last := 1
		for step, err := range rec.Steps() {
			if err != nil {
				var lineError *replay.LineError
				require.ErrorAs(t, err, &lineError)
				require.Equal(t, last+1, lineError.Line)
				last = -1
				continue
			}
			require.Equal(t, last+1, step.Line)
			last = step.Line
		}
	})
}
