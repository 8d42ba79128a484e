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

// runs is a source that sends the context of each run.
type runs chan context.Context

func (r runs) Run(ctx context.Context, _ datastore.Receiver) error {
	r <- ctx
	<-ctx.Done()
	return ctx.Err()
}

// A change of settings ends the pipeline before the call that reports the change returns. A source
// that waits for settings then sends its objects: the previous pipeline would program them with the
// previous settings.
func TestChangeOfSettingsEndsThePipelineFirst(t *testing.T) {
	source := make(runs)
	d, err := newDaemon(Config{
		NetNS: nstest.New(t).FD(), Below: []settings.Layer{{Source: "test", Values: map[string]string{"node": "n"}}},
		Sources: func(settings.Settings) ([]datastore.NamedSource, error) {
			return []datastore.NamedSource{{Name: "runs", Source: source}}, nil
		},
	})
	require.NoError(t, err)
	d.stored.setComplete()
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
	require.NoError(t, first.Err(), "a new log level needs no restart")
	share("DEBUG", "2")
	require.Error(t, first.Err())
	second := <-source
	require.NoError(t, second.Err())
	require.Equal(t, uint64(1), d.restarts.Load())
	cancel()
	require.NoError(t, <-ended)
	require.Equal(t, uint64(1), d.restarts.Load())
}
