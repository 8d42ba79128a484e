// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// rig is a node between a client and two servers, a and b, and the program on it.
type rig struct {
	t            *testing.T
	node, client *netns.NS
	file         string
	out          nstest.Log
	hangup       chan os.Signal
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, node: nstest.New(t), file: filepath.Join(t.TempDir(), "forwards"),
		out: nstest.NewLog(), hangup: make(chan os.Signal),
	}
	require.NoError(t, r.node.SetSysctl("net/ipv4/ip_forward", "1"))
	require.NoError(t, r.node.SetSysctl("net/ipv6/conf/all/forwarding", "1"))
	r.client = nstest.NewPeer(t, r.node, "client", "192.0.2.1/24", "2001:db8:c::1/64")
	a := nstest.NewPeer(t, r.node, "a", "10.0.0.1/24", "2001:db8:a::1/64")
	b := nstest.NewPeer(t, r.node, "b", "10.0.1.1/24", "2001:db8:b::1/64")
	for _, address := range []string{"10.0.0.2:80", "[2001:db8:a::2]:80"} {
		nstest.Serve(t, a, address, "a")
	}
	nstest.Serve(t, b, "10.0.1.2:80", "b")
	return r
}

func (r *rig) write(text string) { require.NoError(r.t, os.WriteFile(r.file, []byte(text), 0o600)) }

// run runs the program in the node's namespace.
func (r *rig) run(ctx context.Context, args ...string) error {
	return r.node.Do(func() error { return run(ctx, append(args, r.file), r.hangup, r.out) })
}

// start starts the program, and returns a function that ends it.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx) }()
	r.out.Wait(r.t, "msg=forwarding")
	return func() {
		cancel()
		require.NoError(r.t, <-ended)
	}
}

// Ports are forwarded as the file lists them, other ports are not, and a change affects new
// connections.
func TestForwards(t *testing.T) {
	r := newRig(t)
	r.write("tcp 8080 10.0.0.2:80\nudp 8080 10.0.1.2:80\ntcp 8080 [2001:db8:a::2]:80 # the same\n")
	stop := r.start()
	require.Equal(t, "a", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"))
	require.Equal(t, "b", nstest.Answer(t, r.client, "udp", "192.0.2.1:8080"))
	require.Equal(t, "a", nstest.Answer(t, r.client, "tcp", "[2001:db8:c::1]:8080"))
	for _, row := range []struct{ why, network, address string }{
		{"another port", "tcp", "192.0.2.1:8081"},
		{"the other IP version", "udp", "[2001:db8:c::1]:8080"},
		{"to another machine", "tcp", "10.0.1.2:8080"},
	} {
		require.Contains(t, nstest.Answer(t, r.client, row.network, row.address), "connection refused", row.why)
	}

	before, err := nstest.Dial(t, r.client, "tcp", "192.0.2.1:8080")
	require.NoError(t, err)
	r.write("tcp 8080 10.0.1.2:80\n")
	r.hangup <- syscall.SIGHUP
	r.out.Wait(t, "msg=forwarding")
	require.Equal(t, "b", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"))
	require.Contains(t, nstest.Answer(t, r.client, "tcp", "[2001:db8:c::1]:8080"), "connection refused")
	_, err = before.Write([]byte("still\n"))
	require.NoError(t, err)
	line := make([]byte, 8)
	_, err = io.ReadFull(before, line)
	require.NoError(t, err)
	require.Equal(t, "a\nstill\n", string(line), "an established connection stays")

	r.write("tcp 8080 10.0.0.2:80\ntcp 0 10.0.0.2:80\n")
	r.hangup <- syscall.SIGHUP
	require.Contains(t, r.out.Wait(t, "level=ERROR"), r.file+`:2: port \"0\"`)
	require.Equal(t, "b", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"), "an invalid file changes nothing")

	stop()
	require.Equal(t, "b", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"), "the kernel keeps the table")
	r.write("tcp 8080 10.0.0.2:80\n")
	stop = r.start() // adopts the table
	require.Equal(t, "a", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"))
	stop()
	require.NoError(t, r.run(t.Context(), "--remove"))
	require.Contains(t, nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"), "connection refused")
	require.Empty(t, nstest.NFT(t, r.node, "", "list", "tables"))
}

// The program leaves the tables of others alone, and restores its own.
func TestChangesOfOthers(t *testing.T) {
	r := newRig(t)
	theirs := "table ip theirs {\n\tchain c {\n\t}\n}\n"
	nstest.NFT(t, r.node, theirs, "-f", "-")
	nstest.NFT(t, r.node, "table inet portforward {\n\tchain old {\n\t}\n}\n", "-f", "-")
	r.write("tcp 8080 10.0.0.2:80\n")
	stop := r.start()
	require.Equal(t, theirs, nstest.NFT(t, r.node, "", "list", "table", "ip", "theirs"))
	require.NotContains(t, nstest.NFT(t, r.node, "", "list", "table", "inet", "portforward"), "chain old")
	require.Equal(t, "a", nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"))
	stop()
}

// A second process cannot have the table.
func TestTableHasOneOwner(t *testing.T) {
	r := newRig(t)
	r.write("tcp 8080 10.0.0.2:80\n")
	kernel, err := applier.New(applier.Config{Name: "portforward", NetNS: r.node.FD()})
	require.NoError(t, err)
	defer kernel.Close()
	require.NoError(t, kernel.Apply(t.Context(), newTable("portforward", nil)))
	nstest.SkipUnlessOwned(t, kernel.Stats().Owned)
	var owned *applier.OwnedError
	require.ErrorAs(t, r.run(t.Context()), &owned)
	require.Equal(t, "portforward", owned.Table)
	require.Contains(t, nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080"), "connection refused")
}

// A table without an owner, as on older kernels, is restored.
func TestTableIsRestored(t *testing.T) {
	r := newRig(t)
	r.write("tcp 8080 10.0.0.2:80\n")
	kernel, err := applier.New(applier.Config{Name: "forwards", NetNS: r.node.FD(), Shared: true})
	require.NoError(t, err)
	k := &keeper{file: r.file, table: "forwards", kernel: kernel, logger: slog.New(slog.NewTextHandler(r.out, nil))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.run(ctx, r.hangup) }()
	r.out.Wait(t, "msg=forwarding")
	for _, command := range []string{"flush chain inet forwards prerouting", "delete table inet forwards"} {
		nstest.NFT(t, r.node, command+"\n", "-f", "-")
		r.out.Wait(t, "another process changed the table")
		require.Eventually(t, func() bool {
			return nstest.Answer(t, r.client, "tcp", "192.0.2.1:8080") == "a"
		}, 20*time.Second, 10*time.Millisecond)
	}
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, kernel.Close())
}

func TestUsage(t *testing.T) {
	out := nstest.NewLog()
	require.ErrorIs(t, run(t.Context(), []string{"--help"}, nil, out), flag.ErrHelp)
	require.Contains(t, out.Wait(t, "usage"), "portforward [flags] FILE")
	require.ErrorContains(t, run(t.Context(), nil, nil, out), "the file of forwards")
	require.Error(t, run(t.Context(), []string{"--no"}, nil, out))
	none := filepath.Join(t.TempDir(), "none")
	r := &rig{t: t, node: nstest.New(t), file: none, out: out}
	require.ErrorIs(t, r.run(t.Context()), os.ErrNotExist)
}
