// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/memory"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/agent/internal/settings"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// If the limit is exceeded between the first write and the last, the agent does not end: it writes
// the rest.
func TestLimitExceededWhileProgramming(t *testing.T) {
	node, store := nstest.New(t), &datastore.Memory{}
	nstest.NewWorkload(t, node, "way0", "10.0.0.9")
	e := &policy.WorkloadEndpoint{
		Namespace: "shop", Name: "a", Node: "n", Interface: "way0",
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.9")},
	}
	require.NoError(t, store.Update(t.Context(), []policy.Update{{Key: e.Key(), Resource: e}}))
	var log bytes.Buffer
	states := make(chan pipeline.State, 1000)
	d, err := newDaemon(Config{
		NetNS: node.FD(), Log: &log, Programmed: func(s pipeline.State) { states <- s },
		Sources: func(settings.Settings) ([]datastore.NamedSource, error) {
			return []datastore.NamedSource{{Name: "memory", Source: store}}, nil
		},
		Below: []settings.Layer{{Source: "test", Values: map[string]string{
			"node": "n", "endpoint-dir": "", "socket": "", "http-address": "",
		}}},
	})
	require.NoError(t, err)
	refused := make(chan bool, 1)
	d.watchLimit = func(context.Context) error {
		<-d.gate.writing
		return &memory.ExceededError{}
	}
	d.cfg.Exceeded = func(error) { refused <- true }
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	for s := range states {
		if s.InSync {
			require.NoError(t, s.Err)
			break
		}
	}
	require.NoError(t, d.current().WaitProgrammed(t.Context(), e))
	cancel()
	require.NoError(t, <-ended)
	require.Empty(t, refused)
	require.NotContains(t, log.String(), "not enough memory")
}
