// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/policy"
)

// gate receives the recording of the graph's input. It blocks the first write that contains the
// word, and with it the graph, until the channel open is closed.
type gate struct {
	word          []byte
	reached, open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) {
	if g.word != nil && bytes.Contains(p, g.word) {
		g.word = nil
		close(g.reached)
		<-g.open
	}
	return len(p), nil
}

// If an endpoint is deleted before the driver has received it, WaitRemoved waits until the driver
// has removed it. After the end of a pipeline, it returns an error, also for an endpoint that was
// never sent.
func TestWaitRemovedIncludesQueuedUpdates(t *testing.T) {
	memory := &datastore.Memory{}
	g := &gate{word: []byte("way-late"), reached: make(chan struct{}), open: make(chan struct{})}
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources, c.Record = []datastore.NamedSource{{Name: "memory", Source: memory}}, g
	})
	late := endpoint("way-late", "10.0.0.1")
	require.NoError(t, p.WaitRemoved(t.Context(), late.Key(), "memory"), "the endpoint never existed")
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: late.Key(), Resource: late}}))
	<-g.reached
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: late.Key()}}))
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.WaitRemoved(soon, late.Key(), "memory"), context.DeadlineExceeded)
	close(g.open)
	require.NoError(t, p.WaitRemoved(t.Context(), late.Key(), "memory"))

	never := make(chan error, 1)
	go func() { never <- p.WaitProgrammed(t.Context(), endpoint("way-never", "10.0.0.2")) }()
	r.end(t)
	require.ErrorIs(t, <-never, dataplane.ErrStopped)
	require.ErrorIs(t, p.WaitRemoved(t.Context(), late.Key(), "memory"), dataplane.ErrStopped)
}

// WaitApplied waits for the updates of a source, also for those that the driver has not received.
func TestWaitAppliedIncludesQueuedUpdates(t *testing.T) {
	memory := &datastore.Memory{}
	g := &gate{word: []byte("way-late"), reached: make(chan struct{}), open: make(chan struct{})}
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources, c.Record = []datastore.NamedSource{{Name: "memory", Source: memory}}, g
	})
	require.NoError(t, p.WaitApplied(t.Context()))
	late := endpoint("way-late", "10.0.0.1")
	require.NoError(t, memory.Update(t.Context(), []policy.Update{{Key: late.Key(), Resource: late}}))
	<-g.reached
	soon, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, p.WaitApplied(soon), context.DeadlineExceeded)
	close(g.open)
	require.NoError(t, p.WaitApplied(t.Context()))
	r.end(t)
}

// awaited is a context that reports calls of Done, and so that a goroutine waits for it.
type awaited struct {
	context.Context
	called chan struct{}
}

func (a *awaited) Done() <-chan struct{} {
	select {
	case a.called <- struct{}{}:
	default:
	}
	return a.Context.Done()
}

// scripted is a source that runs the functions that it receives.
type scripted chan func(context.Context, datastore.Receiver) error

func (s scripted) Run(ctx context.Context, r datastore.Receiver) error {
	for {
		select {
		case send := <-s:
			if err := send(ctx, r); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// If another source has the endpoint, too, the endpoint stays, and WaitRemoved returns. That source
// may send it during the wait.
func TestWaitRemovedOfLaterUpdate(t *testing.T) {
	own, other := &datastore.Memory{}, make(scripted)
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources = []datastore.NamedSource{{Name: "own", Source: own}, {Name: "other", Source: other}}
	})
	ctx, gone := &awaited{Context: t.Context(), called: make(chan struct{}, 1)}, make(chan error, 1)
	web := endpoint("way-web", "10.0.0.1")
	go func() { gone <- p.WaitRemoved(ctx, web.Key(), "own") }()
	<-ctx.called
	require.Empty(t, gone)
	other <- func(ctx context.Context, receiver datastore.Receiver) error {
		return errors.Join(receiver.Update(ctx, []policy.Update{{Key: web.Key(), Resource: web}}), receiver.InSync(ctx))
	}
	require.NoError(t, <-gone)
	r.end(t)
}

// If a pipeline ends before its sources are in sync, a wait for a removal returns an error.
func TestWaitRemovedOfPipelineThatEnds(t *testing.T) {
	p, r := startSources(t, func(c *pipeline.Config) {
		c.Sources = []datastore.NamedSource{{Name: "never", Source: make(scripted)}}
	})
	gone := make(chan error, 1)
	go func() { gone <- p.WaitRemoved(t.Context(), endpoint("way-web", "10.0.0.1").Key()) }()
	r.end(t)
	select {
	case err := <-gone:
		require.ErrorIs(t, err, dataplane.ErrStopped)
	case <-time.After(deadline):
		require.Fail(t, "still waits")
	}
}
