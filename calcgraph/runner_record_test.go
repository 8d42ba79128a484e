// SPDX-License-Identifier: Apache-2.0

package calcgraph_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// TestRunnerRecords checks the format that package replay documents.
func TestRunnerRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var recording bytes.Buffer
		known := 0
		runner := newRunner(t,
			calcgraph.RunnerConfig{Record: &recording, Out: func(context.Context, dataplane.Batch) error {
				// A batch is recorded before Out receives it.
				require.Greater(t, recording.Len(), known)
				known = recording.Len()
				return nil
			}})
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		nan := math.NaN()
		tier := &policy.Tier{Name: "sec", Order: &nan}
		shouting := &policy.WorkloadEndpoint{Name: "w", Node: node, Interface: "wl1", MAC: "AA:00:00:00:00:01"}
		other := endpoint("x", "10.0.0.1")
		other.Key.Name = "y"
		require.NoError(t, runner.Update(ctx, []policy.Update{
			{Key: tier.Key(), Resource: tier},
			{Key: policy.Key{Kind: policy.KindPolicy, Namespace: "a", Name: "p"}},
			other,
			{Key: shouting.Key(), Resource: shouting},
		}))
		synctest.Wait()
		require.NoError(t, runner.InSync(ctx))
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		lines := strings.Split(recording.String(), "\n")
		for i, prefix := range []string{
			`{"recording":"wayleave/calcgraph","version":1,"node":"n1"}`,
			`{"reject":{"kind":"Tier","name":"sec"},"error":"`,
			`{"delete":{"kind":"Policy","namespace":"a","name":"p"}}`,
			`{"reject":{"kind":"WorkloadEndpoint","namespace":"a","name":"y"},"error":"`,
			`{"set":{"kind":"WorkloadEndpoint","name":"w","node":"n1","interface":"wl1","mac":"AA:00:00:00:00:01"}}`,
			`{"flush":true}`,
			`{"inSync":true}`,
			`{"flush":true}`,
			"",
		} {
			require.Truef(t, strings.HasPrefix(lines[i], prefix), "line %d: %s", i+1, lines[i])
		}
		require.Len(t, lines, 9)
		require.Equal(t, "AA:00:00:00:00:01", shouting.MAC, "the runner does not change the caller's resource")
	})
}

// failing is a writer that fails after a number of bytes, as a full disk does.
type failing struct {
	left   int
	writes int
}

var errFull = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	f.writes++
	if f.left < len(p) {
		return f.left, errFull
	}
	f.left -= len(p)
	return len(p), nil
}

// TestRunnerContinuesAfterFailedRecording: a writer that fails is reported once, and not called
// again.
func TestRunnerContinuesAfterFailedRecording(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		disk := &failing{left: 300}
		var failures []error
		batches := 0
		runner := newRunner(t, calcgraph.RunnerConfig{
			Record: disk,
			Hooks:  calcgraph.RunnerHooks{RecordFailed: func(err error) { failures = append(failures, err) }},
			Out: func(context.Context, dataplane.Batch) error {
				batches++
				return nil
			},
		})
		ended := make(chan error)
		go func() { ended <- runner.Run(ctx) }()
		require.NoError(t, runner.InSync(ctx))
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			synctest.Wait()
			require.NoError(t, runner.Update(ctx, []policy.Update{endpoint(name, "10.0.0.1")}))
		}
		synctest.Wait()
		require.Equal(t, 6, batches)
		require.Len(t, failures, 1)
		require.ErrorIs(t, failures[0], errFull)
		require.ErrorContains(t, failures[0], "calcgraph: record: ")
		require.Equal(t, 3, disk.writes, "in sync, one endpoint, and the write that failed")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestRunnerRefusesUnreadableLine: the recording ends, but the runner continues.
func TestRunnerRefusesUnreadableLine(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var recording bytes.Buffer
	var failure error
	handed := 0
	runner := newRunner(t, calcgraph.RunnerConfig{
		Record: &recording,
		Hooks:  calcgraph.RunnerHooks{RecordFailed: func(err error) { failure = err }},
		Out: func(_ context.Context, b dataplane.Batch) error {
			handed += endpointUpdatesOf(b)
			cancel()
			return nil
		},
	})
	huge := policy.Update{Key: policy.Key{Kind: policy.KindTier, Name: strings.Repeat("x", calcgraph.MaxRecordLine)}}
	require.NoError(t, runner.Update(ctx, []policy.Update{huge, endpoint("x", "10.0.0.1")}))
	require.NoError(t, runner.InSync(ctx))
	require.ErrorIs(t, runner.Run(ctx), context.Canceled)
	require.ErrorContains(t, failure, "longer than")
	require.Equal(t, 1, handed)
	require.Empty(t, recording.String(), "updates without a flush are not recorded")
}
