// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/dataplane/wire/internal/frame"
	"github.com/wayleave/wayleave/dataplane/wire/wirepb"
	"github.com/wayleave/wayleave/policy/worlds"
)

// raw is a client whose messages the test sends itself.
type raw struct {
	t    *testing.T
	conn net.Conn
	*frame.Conn
}

func dialRaw(t *testing.T, path string) *raw {
	conn, err := net.Dial("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &raw{t, conn, frame.New(conn, 64<<20, time.Minute)}
}

// hello sends the hello message and returns the server's answer.
func (r *raw) hello(hello *wirepb.ClientHello) *wirepb.ServerHello {
	require.NoError(r.t, r.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_Hello{Hello: hello}}))
	return r.next().GetHello()
}

func (r *raw) next() *wirepb.ServerMessage {
	m := &wirepb.ServerMessage{}
	require.NoError(r.t, r.Read(m))
	return m
}

func (r *raw) ack(request uint64, objects ...*wirepb.ObjectStatus) {
	require.NoError(r.t, r.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_Ack{
		Ack: &wirepb.Ack{Request: request, Objects: objects},
	}}))
}

// requireEnd requires that the server ends the connection.
func (r *raw) requireEnd() {
	for {
		if err := r.Read(&wirepb.ServerMessage{}); err != nil {
			require.NotErrorIs(r.t, err, os.ErrDeadlineExceeded)
			return
		}
	}
}

// Without a client, the state is kept, and the error has the reason. A new client gets the whole
// state.
func TestWithoutClient(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	early := dptest.NewState()
	early.Nodes["n"] = &dataplane.Node{Name: "n"}
	require.NoError(t, send(t, server, dptest.NewState(), early), "before in-sync")
	full := world("a", "b")
	full.Nodes = early.Nodes
	err := send(t, server, early, full)
	require.ErrorIs(t, err, wire.ErrNotConnected)
	require.EqualError(t, err, "wire: apply: no client is connected")
	_, general := dataplane.ApplyErrors(err)
	require.True(t, general)
	require.ErrorIs(t, server.Resync(t.Context()), wire.ErrNotConnected)
	require.ErrorIs(t, server.Teardown(t.Context()), wire.ErrNotConnected)
	_, err = server.Plan(t.Context(), dataplane.Batch{})
	require.ErrorIs(t, err, wire.ErrNotConnected)

	k := &kernel{}
	client := connect(t, server, path, newMemory(k))
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{}))
	require.Equal(t, full.String(), k.dump())
	require.Len(t, server.Unjudged(), 2)

	client.end()
	require.Eventually(t, func() bool { return !server.Connected() }, 10*time.Second, time.Millisecond)
	require.Error(t, server.Apply(t.Context(), dataplane.Batch{}))
	require.Equal(t, full.String(), k.dump(), "programmed objects stay")
}

// A client that reconnects gets the missed changes. A client with another state gets a snapshot.
func TestResume(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	require.Error(t, send(t, server, dptest.NewState(), world("a")))

	first := dialRaw(t, path)
	hello := first.hello(&wirepb.ClientHello{Version: 1})
	snapshot := first.next().GetBatch()
	require.True(t, snapshot.GetSnapshot())
	require.EqualValues(t, 1, snapshot.GetGeneration())
	require.Len(t, snapshot.GetEvents(), 2)
	first.ack(snapshot.GetRequest())
	require.NoError(t, first.conn.Close())

	_ = send(t, server, world("a"), world("a", "b"))
	_ = send(t, server, world("a", "b"), world("b"))
	second := dialRaw(t, path)
	second.hello(&wirepb.ClientHello{Version: 1, Session: hello.GetSession(), Generation: 1})
	for i, want := range []string{"b", "a"} {
		missed := second.next().GetBatch()
		require.False(t, missed.GetSnapshot())
		require.EqualValues(t, i+2, missed.GetGeneration())
		require.Len(t, missed.GetEvents(), 1)
		require.Contains(t, missed.String(), `name:"`+want+`"`)
		second.ack(missed.GetRequest())
	}
	for _, unknown := range []*wirepb.ClientHello{
		{Version: 1, Session: []byte("another"), Generation: 1},
		{Version: 1, Session: hello.GetSession(), Generation: 4},
	} {
		other := dialRaw(t, path)
		other.hello(unknown)
		require.True(t, other.next().GetBatch().GetSnapshot())
	}
	second.requireEnd() // another client has replaced it

	// If the history does not have all changes, a snapshot is sent.
	big := world("b")
	big.Sets["s:a"] = dptest.Set{Members: members(60_000)}
	_ = send(t, server, world("b"), big)
	other := dialRaw(t, path)
	other.hello(&wirepb.ClientHello{Version: 1, Session: hello.GetSession(), Generation: 3})
	require.True(t, other.next().GetBatch().GetSnapshot())
}

func members(n int) []dataplane.Member {
	list := make([]dataplane.Member, n)
	for i := range list {
		list[i].Prefix = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 32)
	}
	return list
}

// Large sets and batches are sent in parts below the limit.
func TestLargeBatch(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{MaxMessage: 1 << 20})
	full := world()
	full.Sets["s:a"] = dptest.Set{Members: members(300_000)}
	for i := range 3000 {
		name := strings.Repeat("x", 200) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676))
		labels := map[string]string{"a": strings.Repeat("y", 500)}
		full.Namespaces[name] = &dataplane.Namespace{Name: name, Labels: labels}
	}
	require.Error(t, send(t, server, dptest.NewState(), full))
	k := &kernel{}
	connect(t, server, path, newMemory(k))
	require.NoError(t, server.Apply(t.Context(), dataplane.Batch{}))
	require.Equal(t, full.String(), k.dump())

	less := full.Clone()
	changed := append(members(200_000)[100_000:], members(310_000)[300_000:]...)
	less.Sets["s:a"] = dptest.Set{Members: changed}
	require.NoError(t, send(t, server, full, less))
	require.Equal(t, less.String(), k.dump())
	text, err := server.Plan(t.Context(), dptest.Transition(less, full))
	require.NoError(t, err)
	require.Equal(t, dptest.Transition(less, full).String(), text)
}

// A new server has an incomplete state at first. Until it is complete, the client keeps the
// programmed state.
func TestServerRestarts(t *testing.T) {
	path := socketPath(t)
	server, listening := serve(t, path, wire.ServerConfig{})
	k := &kernel{}
	connect(t, server, path, newMemory(k))
	require.NoError(t, send(t, server, dptest.NewState(), world("a", "b")))
	programmed := k.dump()
	listening.end()

	next, _ := serve(t, path, wire.ServerConfig{})
	require.Eventually(t, next.Connected, 10*time.Second, time.Millisecond)
	require.NoError(t, next.Apply(t.Context(), dataplane.Batch{}))
	require.NoError(t, next.Resync(t.Context()))
	early := dptest.NewState()
	early.Nodes["n"] = &dataplane.Node{Name: "n"}
	require.NoError(t, send(t, next, dptest.NewState(), early))
	require.Equal(t, programmed, k.dump())
	full := world("b", "c")
	full.Nodes = early.Nodes
	require.NoError(t, send(t, next, early, full))
	require.Equal(t, full.String(), k.dump())
}

// Although connections break at random, the client finally has the state that the driver was sent.
func TestDriverStateArrivesOverBrokenConnections(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	k, cutter := &kernel{}, &tamper{}
	client, err := wire.NewClient(wire.ClientConfig{
		Dataplane: newMemory(k), MaxBackoff: 5 * time.Millisecond, Logger: logger(t),
	})
	require.NoError(t, err)
	run(t, func(ctx context.Context) error { return client.Run(ctx, cutter.dial(path)) })
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{
		Dataplanes: []dataplane.Dataplane{server}, MinBackoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	run(t, driver.Run)
	gen := worlds.New(worlds.Config{Seed: 7})
	graph, err := calcgraph.New(calcgraph.Config{Node: worlds.Node})
	require.NoError(t, err)
	graph.InSync()
	want := dptest.NewMirror()
	for range 300 {
		for range 5 {
			graph.Update(gen.Update())
		}
		b := graph.Flush()
		require.NoError(t, want.Play(b))
		require.NoError(t, driver.Send(t.Context(), b))
		if rand.N(3) == 0 {
			cutter.cut() // while the driver applies it, or before
		}
	}
	require.NoError(t, driver.WaitApplied(t.Context()))
	require.Equal(t, want.State().String(), k.dump())
}

// Serve handles one connection, and returns when it ends or the context is done.
func TestServe(t *testing.T) {
	path := socketPath(t)
	server, listening := serve(t, path, wire.ServerConfig{})
	connected := func() (ended chan error, stop context.CancelFunc) {
		conn, err := wire.Dial(path)(t.Context())
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended = make(chan error, 1)
		go func() { ended <- wire.Serve(ctx, conn, newMemory(&kernel{})) }()
		require.Eventually(t, server.Connected, 10*time.Second, time.Millisecond)
		return ended, stop
	}
	ended, stop := connected()
	require.NoError(t, send(t, server, dptest.NewState(), world("a")))
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Eventually(t, func() bool { return !server.Connected() }, 10*time.Second, time.Millisecond)
	ended, stop = connected()
	defer stop()
	listening.end()
	require.Error(t, <-ended)
	require.ErrorContains(t, wire.Serve(t.Context(), nil, nil), "wire: ClientConfig.Dataplane: required")
}

// If the connection ends during a request, the error has the reason.
func TestLostConnection(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	client := dialRaw(t, path)
	client.hello(&wirepb.ClientHello{Version: 1})
	client.ack(client.next().GetBatch().GetRequest())
	applied := make(chan error, 1)
	go func() { applied <- server.Apply(t.Context(), dptest.Transition(dptest.NewState(), world("a"))) }()
	client.next()
	client.ack(99)
	err := <-applied
	require.ErrorIs(t, err, wire.ErrNotConnected)
	require.ErrorContains(t, err, "unexpected answer to request 99")
}

// All fields of the errors of objects arrive, and general errors arrive as text.
func TestErrors(t *testing.T) {
	k := &kernel{}
	server := pair(t, newMemory(k))
	spoilt := world("a")
	spoilt.Endpoints[endpointKey("w")] = &dataplane.Endpoint{Interface: bad}
	err := send(t, server, dptest.NewState(), spoilt)
	objects, general := dataplane.ApplyErrors(err)
	require.False(t, general)
	require.Equal(t, "memory: add WorkloadEndpoint/n/w: bad interface", objects[endpointKey("w")].Error())
	require.Equal(t, "extended ack", objects[endpointKey("w")].Detail)
	k.fail(errors.New("no memory \xff"))
	err = server.Resync(t.Context())
	_, general = dataplane.ApplyErrors(err)
	require.True(t, general)
	require.ErrorContains(t, err, "no memory")
}

// An endpoint that is pending behind the socket is pending for the driver.
func TestPending(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{})
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{server}})
	require.NoError(t, err)
	run(t, driver.Run)
	client := dialRaw(t, path)
	client.hello(&wirepb.ClientHello{Version: 1})
	client.ack(client.next().GetBatch().GetRequest()) // the snapshot
	require.NoError(t, driver.Send(t.Context(), dptest.Transition(dptest.NewState(), world("a"))))
	key := &wirepb.Key{Kind: "WorkloadEndpoint", Namespace: "n", Name: "a"}
	pending := &wirepb.ObjectStatus{Object: key, Status: wirepb.Status_STATUS_PENDING, Backend: "x", Reason: "slow"}
	answer := func(objects ...*wirepb.ObjectStatus) (events int) {
		b := client.next().GetBatch()
		client.ack(b.GetRequest(), objects...)
		return len(b.GetEvents())
	}
	for answer(pending) == 0 { // of the driver's first rounds
	}
	require.Eventually(t, func() bool {
		return driver.Status().Endpoints[endpointKey("a")].Err != nil
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, dataplane.EndpointPending, driver.Status().Endpoints[endpointKey("a")].State)
	require.NoError(t, client.Write(&wirepb.ClientMessage{Message: &wirepb.ClientMessage_StatusUpdate{
		StatusUpdate: &wirepb.StatusUpdate{Objects: []*wirepb.ObjectStatus{
			{Object: key, Status: wirepb.Status_STATUS_PROGRAMMED},
		}},
	}}))
	require.Zero(t, answer())
	require.NoError(t, driver.WaitProgrammed(t.Context(), endpointKey("a")))
}

// Drifts are repaired by the driver, and by the client if there is no server.
func TestDrift(t *testing.T) {
	path := socketPath(t)
	server, listening := serve(t, path, wire.ServerConfig{})
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{server}})
	require.NoError(t, err)
	run(t, driver.Run)
	k := &kernel{}
	dp := newMemory(k)
	connect(t, server, path, dp)
	require.NoError(t, driver.Send(t.Context(), dptest.Transition(dptest.NewState(), world("a"))))
	require.NoError(t, driver.WaitApplied(t.Context()))
	programmed := k.dump()
	repaired := func() bool { return k.dump() == programmed }
	damage := func() {
		k.set("damaged")
		dp.drifts <- dataplane.Drift{Backend: "memory", Object: "all", Process: "nft (1)", Foreign: true}
	}
	damage()
	// The Apply after the connection may repair the damage before the driver counts it.
	require.Eventually(t, func() bool { return driver.Stats().Drifts == 1 && repaired() },
		10*time.Second, time.Millisecond)
	listening.end()
	damage()
	require.Eventually(t, repaired, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 1, driver.Stats().Drifts)
}

// A violation of the protocol ends the connection.
func TestClientsAreRefused(t *testing.T) {
	path := socketPath(t)
	server, _ := serve(t, path, wire.ServerConfig{Timeout: 300 * time.Millisecond})
	greeted := func() *raw {
		r := dialRaw(t, path)
		require.Empty(t, r.hello(&wirepb.ClientHello{Version: 1}).GetError())
		return r
	}
	t.Run("version", func(t *testing.T) {
		r := dialRaw(t, path)
		require.Equal(t, "version 2 of the protocol is not supported, want 1",
			r.hello(&wirepb.ClientHello{Version: 2}).GetError())
		r.requireEnd()
	})
	t.Run("no hello", func(t *testing.T) {
		r := dialRaw(t, path)
		r.ack(1)
		r.requireEnd()
	})
	t.Run("silence before hello", func(t *testing.T) { dialRaw(t, path).requireEnd() })
	t.Run("silence", func(t *testing.T) { greeted().requireEnd() })
	t.Run("unknown request", func(t *testing.T) {
		r := greeted()
		r.ack(99)
		r.requireEnd()
	})
	t.Run("second hello", func(t *testing.T) {
		r := greeted()
		require.NoError(t, r.Write(&wirepb.ClientMessage{
			Message: &wirepb.ClientMessage_Hello{Hello: &wirepb.ClientHello{Version: 1}},
		}))
		r.requireEnd()
	})
	t.Run("too long", func(t *testing.T) {
		r := greeted()
		_, err := r.conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		require.NoError(t, err)
		r.requireEnd()
	})
	t.Run("garbage", func(t *testing.T) {
		r := greeted()
		_, err := r.conn.Write([]byte{0, 0, 0, 2, 0xff, 0xff})
		require.NoError(t, err)
		r.requireEnd()
	})
	t.Run("does not read", func(t *testing.T) {
		greeted()
		full := world()
		full.Sets["s:a"] = dptest.Set{Members: members(2_000_000)}
		require.ErrorIs(t, send(t, server, dptest.NewState(), full), wire.ErrNotConnected)
	})
}

// A peer of another user cannot connect.
func TestAuthentication(t *testing.T) {
	path := socketPath(t)
	other := uint32(os.Geteuid()) + 1
	_, _ = serve(t, path, wire.ServerConfig{Authenticate: wire.Users(other)})
	r := dialRaw(t, path)
	require.ErrorIs(t, r.Read(&wirepb.ServerMessage{}), io.EOF)

	server, err := wire.NewServer(wire.ServerConfig{})
	require.NoError(t, err)
	left, right := net.Pipe()
	defer func() { _ = right.Close() }()
	err = server.ServeConn(t.Context(), left)
	require.ErrorIs(t, err, wire.ErrUnauthorized)
	require.ErrorContains(t, err, "not a Unix socket")
	_, err = wire.NewServer(wire.ServerConfig{MaxMessage: 1000})
	require.Error(t, err)
	_, err = wire.NewClient(wire.ClientConfig{})
	require.Error(t, err)
}

// Listen replaces only a socket on which no process listens.
func TestListen(t *testing.T) {
	path := filepath.Join(socketPath(t)+".folder", "s")
	first, err := wire.Listen(path)
	require.NoError(t, err)
	for file, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode().Perm(), file)
	}
	files, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, files, 1)
	_, err = wire.Listen(path)
	require.ErrorContains(t, err, "another process listens on it")
	require.NoError(t, first.Close())
	require.NoFileExists(t, path)

	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	second, err := wire.Listen(path)
	require.NoError(t, err)
	require.ErrorIs(t, first.Close(), net.ErrClosed)
	require.FileExists(t, path, "the socket belongs to the second listener")
	require.NoError(t, second.Close())

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = wire.Listen(path)
	require.ErrorContains(t, err, "is not a socket")
	_, err = wire.Listen("@" + path)
	require.ErrorContains(t, err, "abstract")
}

// A client ends the connection at an unknown field of a message, in the events or around them: the
// message is of a newer version. Only the first message, with which they negotiate the version, may
// have one.
func TestUnknownFieldsEndTheConnection(t *testing.T) {
	unknown := protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1)
	set := &wirepb.IPSetUpdate{Id: "s:a", Type: wirepb.IPSetType_IP_SET_TYPE_NETS, Members: &wirepb.Members{}}
	batch := &wirepb.Batch{Request: 1, Generation: 1, Snapshot: true, Events: []*wirepb.Event{
		{Event: &wirepb.Event_IpSetUpdate{IpSetUpdate: set}}, {Event: &wirepb.Event_InSync{InSync: &wirepb.InSync{}}},
	}}
	message := &wirepb.ServerMessage{Message: &wirepb.ServerMessage_Batch{Batch: batch}}
	for _, part := range []proto.Message{message, batch, batch.GetEvents()[0], set.GetMembers()} {
		client, peer := net.Pipe()
		t.Cleanup(func() { _ = peer.Close() })
		served, k := make(chan error, 1), &kernel{}
		go func() { served <- wire.Serve(t.Context(), client, newMemory(k)) }()
		server := &raw{t, peer, frame.New(peer, 64<<20, time.Minute)}
		require.NoError(t, server.Read(&wirepb.ClientMessage{}))
		hello := &wirepb.ServerHello{Version: 1, MaxMessageBytes: 1 << 20}
		hello.ProtoReflect().SetUnknown(unknown)
		require.NoError(t, server.Write(&wirepb.ServerMessage{Message: &wirepb.ServerMessage_Hello{Hello: hello}}))

		part.ProtoReflect().SetUnknown(unknown)
		require.NoError(t, server.Write(message)) // it returns once the client has read the message
		require.NoError(t, peer.Close())
		require.ErrorContains(t, <-served, "unknown field")
		require.Empty(t, k.dump())
		part.ProtoReflect().SetUnknown(nil)
	}
}
