// SPDX-License-Identifier: Apache-2.0

package pipeline_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// Each pipeline gets the objects of an unreadable directory from the previous one, even if that one
// ended before it ran. Without a previous pipeline, the objects are unknown, and the pipeline
// waits.
func TestDirectoryIsUnreadable(t *testing.T) {
	node, dir := nstest.New(t), t.TempDir()
	write(t, dir, "pods.yaml", namespace+"---"+pod("web", "10.0.0.1"))
	states := make(chan pipeline.State, 1000)
	config := func(previous *pipeline.Pipeline) pipeline.Config {
		return pipeline.Config{
			Manifests: dir, Node: "n", NetNS: node.FD(), Previous: previous,
			Programmed: func(s pipeline.State) { states <- s },
		}
	}
	// run runs a pipeline until it is in sync, or does not run it at all.
	run := func(previous *pipeline.Pipeline, inSync bool) *pipeline.Pipeline {
		p, err := pipeline.New(config(previous))
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if !inSync {
			cancel()
			require.NoError(t, p.Run(ctx))
			return p
		}
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		timeout := time.After(deadline)
		for synced := false; !synced; {
			select {
			case s := <-states:
				synced = s.InSync
			case <-timeout:
				t.Fatal("not in sync")
			}
		}
		cancel()
		require.NoError(t, <-ended)
		return p
	}
	first := run(nil, true)
	require.NotZero(t, first.Objects())
	require.Empty(t, first.Unreadable())
	require.NoError(t, os.Rename(dir, dir+".away"))
	second := run(first, false)
	third := run(second, true)
	require.Equal(t, first.World(), third.World())
	require.ErrorIs(t, third.Unreadable()[pipeline.SourceManifests], os.ErrNotExist)
	require.Empty(t, third.Waiting())
	fourth := run(nil, false)
	require.Equal(t, []string{pipeline.SourceManifests}, fourth.Waiting())
}
