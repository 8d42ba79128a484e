// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/cluster"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// runs is a source that has the contexts of its runs.
type runs chan context.Context

func (r runs) Run(ctx context.Context, _ datastore.Receiver) error {
	r <- ctx
	<-ctx.Done()
	return ctx.Err()
}

// A change of settings ends the pipeline before it returns. Only then may a source that waits for settings send its
// objects: the former pipeline would program them by the former settings.
func TestChangeOfSettingsEndsThePipelineFirst(t *testing.T) {
	source := make(runs)
	d, err := newDaemon(Config{
		NetNS: nstest.New(t).FD(), Below: []settings.Layer{{Source: "test", Values: map[string]string{"node": "n"}}},
		Sources: func(settings.Settings) ([]datastore.NamedSource, error) {
			return []datastore.NamedSource{{Name: "runs", Source: source}}, nil
		},
	})
	require.NoError(t, err)
	d.stored.settle()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.supervise(ctx) }()
	first := <-source
	share := func(level, burst string) {
		d.stored.share(cluster.Layers{Global: []settings.Layer{{
			Source: "test", Datastore: true, Values: map[string]string{"log-level": level, "apply-burst": burst},
		}}})
	}
	share("DEBUG", "1")
	require.NoError(t, first.Err(), "that needs no other pipeline")
	share("DEBUG", "2")
	require.Error(t, first.Err())
	second := <-source
	require.NoError(t, second.Err())
	require.Equal(t, uint64(1), d.restarts.Load())
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, uint64(1), d.restarts.Load())
}
