// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/internal/parts"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/policy"
)

const waitTimeout = 20 * time.Second

func key(name string) policy.Key {
	return policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "n", Name: name}
}

func policyKey(name string) policy.Key {
	return policy.Key{Kind: policy.KindPolicy, Namespace: "n", Name: name}
}

// anyone accepts all peers.
func anyone(policy.Key, policysync.Peer) error { return nil }

// serve returns a server that by default accepts all peers, and the function with the paths of its
// sockets.
func serve(t *testing.T, cfg policysync.ServerConfig) (*policysync.Server, func(policy.Key) string) {
	t.Helper()
	if cfg.Socket == nil {
		cfg.Socket = policysync.Folder(t.TempDir())
	}
	if cfg.Authenticate == nil {
		cfg.Authenticate = anyone
	}
	cfg.Logger = logger(t)
	server, err := policysync.NewServer(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Close()) })
	return server, cfg.Socket
}

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// dial returns a client of a socket.
func dial(t *testing.T, path string) policysyncpb.PolicySyncClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return policysyncpb.NewPolicySyncClient(conn)
}

// call calls Sync on a socket. The call ends with the test.
func call(t *testing.T, path string) (policysyncpb.PolicySync_SyncClient, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 6*waitTimeout) // so that a test fails if no response arrives
	t.Cleanup(cancel)
	return dial(t, path).Sync(ctx, &policysyncpb.SyncRequest{Name: "test"})
}

// end reads a call until it ends, and returns its status.
func end(t *testing.T, path string) error {
	t.Helper()
	calls, err := call(t, path)
	for err == nil {
		_, err = calls.Recv()
	}
	return err
}

// reader plays the responses of a call into a Mirror, which checks the order of events.
type reader struct {
	t         *testing.T
	calls     policysyncpb.PolicySync_SyncClient
	assembler parts.Assembler
	mirror    *dptest.Mirror
	snapshots int
	last      dataplane.Batch
}

func subscribe(t *testing.T, path string) *reader {
	t.Helper()
	calls, err := call(t, path)
	require.NoError(t, err)
	return &reader{t: t, calls: calls}
}

// read plays the next response.
func (r *reader) read() error {
	for {
		response, err := r.calls.Recv()
		if err != nil {
			return err
		}
		require.Less(r.t, proto.Size(response), 1<<20)
		if response.GetSnapshot() {
			r.mirror = dptest.NewMirror()
			r.snapshots++
		}
		require.NotNil(r.t, r.mirror, "changes before a snapshot")
		require.NoError(r.t, r.assembler.Add(response.GetEvents()))
		if response.GetMore() {
			continue
		}
		r.last = r.assembler.Batch()
		return r.mirror.Play(r.last)
	}
}

// until reads until the reader has a state.
func (r *reader) until(want dptest.State) {
	r.t.Helper()
	for r.mirror == nil || !r.mirror.State().Equal(want) {
		require.NoError(r.t, r.read(), "has:\n%s\nwants:\n%s", r.text(), want)
	}
}

func (r *reader) text() string {
	if r.mirror == nil {
		return "nothing"
	}
	return r.mirror.State().String()
}

// closure returns the objects of a state to which an endpoint refers, directly or not. It is
// independent of the package's code: it removes objects without references until all remaining ones
// have references.
func closure(s dptest.State, key policy.Key) dptest.State {
	c := dptest.NewState()
	c.InSync = s.InSync
	c.Endpoints[key] = s.Endpoints[key]
	c.Policies, c.Profiles, c.Sets = s.Clone().Policies, s.Clone().Profiles, s.Clone().Sets
	listed, profiles := map[policy.Key]bool{}, map[string]bool{}
	for _, t := range slices.Concat(c.Endpoints[key].Ingress, c.Endpoints[key].Egress) {
		for _, k := range t.Policies {
			listed[k] = true
		}
	}
	for _, name := range c.Endpoints[key].Profiles {
		profiles[name] = true
	}
	rules := []dataplane.Rule{}
	for k, p := range c.Policies {
		if !listed[k] {
			delete(c.Policies, k)
			continue
		}
		rules = append(append(rules, p.Ingress...), p.Egress...)
	}
	for name, p := range c.Profiles {
		if !profiles[name] {
			delete(c.Profiles, name)
			continue
		}
		rules = append(append(rules, p.Ingress...), p.Egress...)
	}
	named := map[dataplane.IPSetID]bool{}
	for _, r := range rules {
		for _, m := range []dataplane.Match{r.Source, r.Destination} {
			for _, ids := range [][]dataplane.IPSetID{m.Sets, m.NotSets, m.PortSets, m.NotPortSets} {
				for _, id := range ids {
					named[id] = true
				}
			}
		}
	}
	for id := range c.Sets {
		if !named[id] {
			delete(c.Sets, id)
		}
	}
	return c
}

// watched is a Client that runs until the test ends.
type watched struct {
	client *policysync.Client
	states chan *policysync.State
}

func watch(t *testing.T, path string) *watched {
	t.Helper()
	w := &watched{states: make(chan *policysync.State, 1000)}
	var err error
	w.client, err = policysync.NewClient(policysync.ClientConfig{
		Path: path, MaxBackoff: 20 * time.Millisecond,
		Changed: func(s *policysync.State) { w.states <- s },
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := w.client.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	return w
}

// until waits until the client has a state.
func (w *watched) until(t *testing.T, want dptest.State) {
	t.Helper()
	deadline := time.After(waitTimeout)
	for {
		if s := w.client.State(); s != nil && s.Objects.Equal(want) {
			return
		}
		select {
		case <-w.states:
		case <-deadline:
			require.FailNow(t, "the client does not get the state", want.String())
		}
	}
}

// socketIn returns a path that is short enough for a socket.
func socketIn(t *testing.T, name string) string { return filepath.Join(t.TempDir(), name) }
