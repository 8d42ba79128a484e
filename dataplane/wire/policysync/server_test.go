// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/dataplane/wire/policysync/policysyncpb"
	"github.com/wayleave/wayleave/policy"
)

// requireNotFound reads the rest of a call that ends because the endpoint is removed.
func requireNotFound(t *testing.T, r *reader) {
	t.Helper()
	for {
		if err := r.read(); err != nil {
			require.Equal(t, codes.NotFound, status.Code(err), err)
			return
		}
	}
}

// world is a state in sync with endpoints, whose policy allows a set of the same name.
func world(members int, names ...string) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	for i, name := range names {
		id := dataplane.IPSetID("s:" + name)
		s.Sets[id] = dptest.Set{Type: dataplane.IPSetNets, Members: list(i, members)}
		s.Policies[policyKey(name)] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{{
			Action: policy.Allow, Source: dataplane.Match{Sets: []dataplane.IPSetID{id}},
		}}}
		s.Endpoints[key(name)] = &dataplane.Endpoint{
			Interface: "if-" + name, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 1, 0, byte(i)})},
			Ingress: []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{policyKey(name)},
			}},
		}
	}
	return s
}

// list returns members of a set, which differ between two numbers.
func list(number, members int) []dataplane.Member {
	out := make([]dataplane.Member, members)
	for i := range out {
		a := netip.AddrFrom4([4]byte{byte(20 + number), byte(i >> 16), byte(i >> 8), byte(i)})
		out[i] = dataplane.Member{Prefix: netip.PrefixFrom(a, 32)}
	}
	return out
}

// apply applies the batch between two states, and returns the new one.
func apply(t *testing.T, server *policysync.Server, from, to dptest.State) dptest.State {
	t.Helper()
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(from, to)))
	return to
}

// Before InSync, there is no socket. Afterwards each endpoint has one, which is removed with it.
func TestSocketsFollowEndpoints(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{Socket: policysync.Folder(t.TempDir())})
	empty := dptest.NewState()
	early := world(1, "a")
	early.InSync, early.Endpoints = false, nil
	early = apply(t, server, empty, early.Clone())
	require.NoFileExists(t, path(key("a")))

	state := apply(t, server, early, world(1, "a", "b"))
	info, err := os.Stat(path(key("a")))
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o666, info.Mode())
	require.FileExists(t, path(key("b")))

	state = apply(t, server, state, world(1, "b"))
	require.NoFileExists(t, path(key("a")))
	require.NoError(t, os.Remove(path(key("b"))))
	require.NoError(t, server.Resync(t.Context()))
	subscribe(t, path(key("b"))).until(closure(state, key("b")))

	require.NoError(t, server.Teardown(t.Context()))
	require.NoFileExists(t, path(key("b")))
	apply(t, server, empty, state)
	subscribe(t, path(key("b"))).until(closure(state, key("b")))
	require.NoError(t, server.Close())
	require.NoFileExists(t, path(key("b")))
	require.Error(t, server.Apply(t.Context(), dataplane.Batch{}))
}

// An endpoint without a path has no socket. If the path changes, the socket moves.
func TestSocketMoves(t *testing.T) {
	first, second := socketIn(t, "1"), socketIn(t, "2")
	current := ""
	server, _ := serve(t, policysync.ServerConfig{Socket: func(policy.Key) string { return current }})
	state := apply(t, server, dptest.NewState(), world(1, "a"))
	current = first
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{}))
	r := subscribe(t, first)
	r.until(state)
	current = second
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{}))
	require.Equal(t, codes.Unavailable, status.Code(r.read()))
	require.NoFileExists(t, first)
	subscribe(t, second).until(state)
}

// An endpoint whose socket cannot be opened is reported, and the others are served. A Resync tries
// again.
func TestErrorsOfSocketsAreOfTheirEndpoints(t *testing.T) {
	folder := t.TempDir()
	paths := map[policy.Key]string{
		key("a"): filepath.Join(folder, "a"), key("b"): filepath.Join(folder, "file", "b"),
		key("c"): filepath.Join(folder, strings.Repeat("c", 256)), key("d"): filepath.Join(folder, "a"),
		key("e"): filepath.Join(folder, "taken"),
	}
	require.NoError(t, os.WriteFile(filepath.Join(folder, "file"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "taken"), nil, 0o600))
	server, _ := serve(t, policysync.ServerConfig{Socket: func(k policy.Key) string { return paths[k] }})
	state := world(1, "a", "b", "c", "d", "e")
	batch := dptest.Transition(dptest.NewState(), state)
	for range 2 {
		objects, general := dataplane.ApplyErrors(server.Apply(t.Context(), batch))
		require.False(t, general)
		require.Len(t, objects, 4)
		require.ErrorIs(t, objects[key("c")], syscall.ENAMETOOLONG)
		require.ErrorContains(t, objects[key("d")], "is the socket of WorkloadEndpoint/n/a")
		require.ErrorContains(t, objects[key("e")], "exists and is not a socket")
		require.Equal(t, "policysync", objects[key("b")].Backend)
	}
	subscribe(t, paths[key("a")]).until(closure(state, key("a")))
	require.NoError(t, os.Remove(filepath.Join(folder, "file")))
	require.NoError(t, os.Remove(filepath.Join(folder, "taken")))
	objects, _ := dataplane.ApplyErrors(server.Resync(t.Context()))
	require.Len(t, objects, 2)
	subscribe(t, paths[key("b")]).until(closure(state, key("b")))
	subscribe(t, paths[key("e")]).until(closure(state, key("e")))
}

// Names of sockets are safe, and differ if the keys do.
func TestFolder(t *testing.T) {
	path := policysync.Folder("/run")
	seen := map[string]policy.Key{}
	for want, k := range map[string]policy.Key{
		"/run/shop/web-0.sock":          {Namespace: "shop", Name: "web-0"},
		"/run/%/web.sock":               {Name: "web"},
		"/run/%25/web.sock":             {Namespace: "%", Name: "web"},
		"/run/%2E./%2E.sock":            {Namespace: "..", Name: "."},
		"/run/a%2Fb/%2E%2F..%2Fc.sock":  {Namespace: "a/b", Name: "./../c"},
		"/run/n/%C3%A9%00%0A.d.sock":    {Namespace: "n", Name: "é\x00\n.d"},
		"/run/n/A%20%7E_%25.sock.sock":  {Namespace: "n", Name: "A ~_%.sock"},
		"/run/n/%2Etmp.sock":            {Namespace: "n", Name: ".tmp"},
		"/run/n/%5Cwindows%3Aname.sock": {Namespace: "n", Name: `\windows:name`},
	} {
		require.Equal(t, want, path(k))
		require.NotContains(t, seen, path(k))
		seen[path(k)] = k
	}
}

// requireDenied checks that a client denies the packets that the policy of world allows to the
// first endpoint.
func requireDenied(t *testing.T, s *policysync.State, reason string) {
	t.Helper()
	p := dptest.Packet{Src: netip.MustParseAddr("20.0.0.0"), Dst: netip.MustParseAddr("10.1.0.0")}
	for _, d := range []dptest.Decision{s.Ingress(p, 0), s.Egress(p, 0)} {
		require.Equal(t, policy.Deny, d.Action)
		require.Contains(t, d.By, reason)
	}
	require.Equal(t, key("a"), s.Key)
}

// When the endpoint is removed, calls end with NotFound, and clients deny everything. When it is
// added again, it is served again.
func TestRemovedEndpointIsServedAgain(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{})
	both, one := world(3, "a", "b"), world(3, "b")
	one.Sets["s:b"], one.Endpoints[key("b")] = both.Sets["s:b"], both.Endpoints[key("b")]
	one.Policies[policyKey("b")] = both.Policies[policyKey("b")]
	state := apply(t, server, dptest.NewState(), both)
	client, other := watch(t, path(key("a"))), subscribe(t, path(key("b")))
	other.until(closure(both, key("b")))
	for range 5 {
		r := subscribe(t, path(key("a")))
		r.until(closure(both, key("a")))
		client.until(t, closure(both, key("a")))
		state = apply(t, server, state, one)
		requireNotFound(t, r)
		client.until(t, dptest.NewState())
		requireDenied(t, client.client.State(), "the endpoint is removed")
		state = apply(t, server, state, both)
	}
	client.until(t, closure(both, key("a")))
	// The client of the other endpoint got no message.
	both.Policies[policyKey("b")] = &dataplane.Policy{Tier: "default"}
	state.Policies = one.Policies
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{Events: []dataplane.Event{
		&dataplane.PolicyUpdate{Key: policyKey("b"), Policy: both.Policies[policyKey("b")]},
	}}))
	require.NoError(t, other.read())
	require.Len(t, other.last.Events, 2, other.last.String())
	require.Equal(t, &dataplane.IPSetRemove{ID: "s:b"}, other.last.Events[1])
}

// A slow client gets NotFound too when its endpoint is removed, and then denies everything.
// Meanwhile, the endpoint is added again and served at the same path. Close does not wait for
// clients that never read or never write.
func TestSlowReaderGetsNotFoundForRemovedEndpoint(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{Timeout: time.Hour})
	empty := dptest.NewState()
	empty.InSync = true
	state := apply(t, server, dptest.NewState(), world(500_000, "a"))
	slow, err := call(t, path(key("a")))
	require.NoError(t, err)
	dead, err := call(t, path(key("a")))
	require.NoError(t, err)
	for _, calls := range []policysyncpb.PolicySync_SyncClient{slow, dead} {
		_, err = calls.Recv() // the call has begun
		require.NoError(t, err)
	}
	apply(t, server, state, empty)
	small := apply(t, server, empty, world(1, "a"))
	subscribe(t, path(key("a"))).until(small)
	<-time.After(3 * time.Second) // the client does not read
	for err == nil {
		_, err = slow.Recv()
	}
	require.Equal(t, codes.NotFound, status.Code(err), err)
	silent, err := net.Dial("unix", path(key("a")))
	require.NoError(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	_, err = silent.Read(make([]byte, 1)) // the server accepts the connection
	require.NoError(t, err)
	closed := make(chan struct{})
	go func() { _ = server.Close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(waitTimeout):
		require.Fail(t, "Close waits for a client that does not read")
	}
}

// A large set is sent in parts, and its changes as deltas.
func TestLargeSets(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{MaxQueued: 1 << 30})
	state := apply(t, server, dptest.NewState(), world(300_000, "a"))
	r, client := subscribe(t, path(key("a"))), watch(t, path(key("a")))
	r.until(state)
	client.until(t, state)
	next := state.Clone()
	next.Sets["s:a"] = dptest.Set{Members: append(list(0, 150_000), list(1, 150_000)...)}
	apply(t, server, state, next)
	r.until(next)
	require.Len(t, r.last.Events, 1)
	require.Len(t, r.last.Events[0].(*dataplane.IPSetDelta).Added, 150_000)
	require.Equal(t, 1, r.snapshots)
	client.until(t, next)
}

// A subscriber that does not read gets a snapshot instead of the missed changes, and does not block
// Apply.
func TestSlowReaderGetsASnapshot(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{MaxQueued: 100, Timeout: time.Hour})
	states := []dptest.State{world(50_000, "a"), world(50_000, "b", "a")}
	states[1].Endpoints, states[1].Policies = states[0].Endpoints, states[0].Policies
	delete(states[1].Sets, "s:b")
	there, back := dptest.Transition(states[0], states[1]), dptest.Transition(states[1], states[0])
	apply(t, server, dptest.NewState(), states[0])
	r := subscribe(t, path(key("a")))
	require.NoError(t, r.read()) // the call has begun
	for range 10 {
		require.NoError(t, server.Apply(t.Context(), there))
		require.NoError(t, server.Apply(t.Context(), back))
	}
	require.NoError(t, server.Apply(t.Context(), there))
	r.until(states[1])
	require.Greater(t, r.snapshots, 1)
	require.Less(t, r.snapshots, 20)
}

// A subscriber that reads nothing for the timeout is disconnected.
func TestReaderThatReadsNothingIsDisconnected(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{Timeout: 2 * time.Second, MaxSubscribers: 1})
	apply(t, server, dptest.NewState(), world(500_000, "a"))
	calls, err := call(t, path(key("a")))
	require.NoError(t, err)
	_, err = calls.Recv()
	require.NoError(t, err)
	// Another subscriber is accepted, so the call has ended, although the client has not read the
	// status.
	second := dial(t, path(key("a")))
	require.Eventually(t, func() bool {
		other, err := second.Sync(t.Context(), &policysyncpb.SyncRequest{})
		if err == nil {
			_, err = other.Recv()
		}
		return err == nil
	}, waitTimeout, 20*time.Millisecond)
	for err == nil {
		_, err = calls.Recv()
	}
	require.Equal(t, codes.Unavailable, status.Code(err), err)
	require.ErrorContains(t, err, "the client has not read a message for 2s")
}

// A call over the limit is refused, until another one ends.
func TestSubscribersAreLimited(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{MaxSubscribers: 2})
	state := apply(t, server, dptest.NewState(), world(1, "a", "b"))
	first, second := subscribe(t, path(key("a"))), subscribe(t, path(key("a")))
	first.until(closure(state, key("a")))
	second.until(closure(state, key("a")))
	err := end(t, path(key("a")))
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "the endpoint has 2 subscribers")
	subscribe(t, path(key("b"))).until(closure(state, key("b")))
}

// Refused peers get no policy. An identity is checked again when the endpoint changes.
func TestPeersAreAuthenticated(t *testing.T) {
	refused := errors.New("not this one")
	server, path := serve(t, policysync.ServerConfig{Authenticate: func(k policy.Key, p policysync.Peer) error {
		if p.PID != os.Getpid() || p.User != uint32(os.Getuid()) || p.Group != uint32(os.Getgid()) {
			return errors.New("wrong credentials")
		}
		if k == key("b") || p.Endpoint.Interface == "other" {
			return refused
		}
		return nil
	}})
	state := apply(t, server, dptest.NewState(), world(1, "a", "b"))
	r, client := subscribe(t, path(key("a"))), watch(t, path(key("a")))
	r.until(closure(state, key("a")))
	client.until(t, closure(state, key("a")))
	require.Equal(t, codes.Unavailable, status.Code(end(t, path(key("b")))))

	next := state.Clone()
	changed := *next.Endpoints[key("a")]
	changed.Interface = "other"
	next.Endpoints[key("a")] = &changed
	apply(t, server, state, next)
	require.Equal(t, codes.PermissionDenied, status.Code(r.read()))
	client.until(t, dptest.NewState())
	requireDenied(t, client.client.State(), refused.Error())
}

// While no server runs, clients keep the last state.
func TestClientKeepsItsStateWithoutServer(t *testing.T) {
	server, path := serve(t, policysync.ServerConfig{})
	state := apply(t, server, dptest.NewState(), world(1, "a"))
	r, client := subscribe(t, path(key("a"))), watch(t, path(key("a")))
	r.until(state)
	require.True(t, (<-client.states).Objects.Equal(state))
	require.NoError(t, server.Close())
	require.Equal(t, codes.Unavailable, status.Code(r.read()))
	again, _ := serve(t, policysync.ServerConfig{Socket: path})
	next := apply(t, again, dptest.NewState(), world(2, "a"))
	require.True(t, (<-client.states).Objects.Equal(next), "no state between the two")
}

func TestUsers(t *testing.T) {
	allow := policysync.Users(1, 2)
	require.NoError(t, allow(key("a"), policysync.Peer{User: 2}))
	require.EqualError(t, allow(key("a"), policysync.Peer{User: 3}), "it runs as user 3")
}

// Invalid configurations are refused.
func TestConfig(t *testing.T) {
	_, err := policysync.NewServer(policysync.ServerConfig{})
	require.ErrorContains(t, err, "policysync: ServerConfig.Folder: required without Socket")
	_, err = policysync.NewServer(policysync.ServerConfig{Socket: policysync.Folder("/"), Timeout: -1})
	require.ErrorContains(t, err, "must not be negative")
	_, err = policysync.NewClient(policysync.ClientConfig{})
	require.ErrorContains(t, err, "policysync: ClientConfig.Path: required")
}
