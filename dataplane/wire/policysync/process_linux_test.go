// SPDX-License-Identifier: Apache-2.0

package policysync_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/wire/policysync"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// socketEnv has the path of a socket if this process is a client. The variable userEnv is set if
// the client drops its privileges, and followEnv if the client continues after the first state.
const (
	socketEnv = "POLICYSYNC_TEST_SOCKET"
	userEnv   = "POLICYSYNC_TEST_USER"
	followEnv = "POLICYSYNC_TEST_FOLLOW"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(socketEnv); path != "" {
		if err := client(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	nstest.Main(m)
}

// client prints the first state that it gets from a socket within some time, or all of them.
func client(path string) error {
	if os.Getenv(userEnv) != "" {
		const nobody = 65534
		if err := syscall.Setuid(nobody); err != nil {
			return err
		}
	}
	if os.Getenv(followEnv) != "" {
		return policysync.Watch(context.Background(), path, func(s *policysync.State) {
			fmt.Println(len(s.Objects.Endpoints), "endpoints,", len(s.Objects.Policies), "policies of", s.Key)
		})
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := policysync.Watch(ctx, path, func(s *policysync.State) {
		fmt.Println(s.Key)
		os.Exit(0)
	})
	return fmt.Errorf("no state: %w", err)
}

// clientIn runs a client in a network namespace, or in that of the test, and returns its output.
func clientIn(t *testing.T, ns *netns.NS, path string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), socketEnv+"="+path), env...)
	var out []byte
	run := func() error {
		out, _ = cmd.CombinedOutput() // the output reports a failure
		return nil
	}
	if ns == nil {
		require.NoError(t, run())
	} else {
		require.NoError(t, ns.Do(run))
	}
	return strings.TrimSpace(string(out))
}

// open makes a folder of tests accessible to all users.
func open(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "policysync")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	require.NoError(t, os.Chmod(folder, 0o755))
	return folder
}

// no is the output of a client that is refused.
const no = "no state: context deadline exceeded"

// setWorkload sets the fields of an endpoint that identify its workload.
func setWorkload(s dptest.State, name, link string, addresses ...netip.Addr) {
	s.Endpoints[key(name)].Interface, s.Endpoints[key(name)].Addresses = link, addresses
}

// Only processes in the workload's network namespace get its policy. Processes of the node or of
// another workload do not, even if that workload has given itself the address.
func TestOnlyProcessesInTheWorkloadGetItsPolicy(t *testing.T) {
	node := nstest.New(t)
	web := nstest.NewWorkload(t, node, "cali1", "10.0.0.1", "2001:db8::1")
	other := nstest.NewWorkload(t, node, "cali2", "10.0.0.2")
	server, path := serve(t, policysync.ServerConfig{
		Authenticate: policysync.InWorkload, NetNS: node.FD(), Socket: policysync.Folder(open(t)),
	})
	state := world(3, "web", "anonymous", "absent")
	setWorkload(state, "web", "cali1", web.Addresses...)
	setWorkload(state, "anonymous", "cali1")
	setWorkload(state, "absent", "cali9", web.Addresses...)
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)))

	require.Equal(t, "WorkloadEndpoint/n/web", clientIn(t, web.NS, path(key("web"))))
	require.Equal(t, "WorkloadEndpoint/n/anonymous", clientIn(t, web.NS, path(key("anonymous"))))
	require.Equal(t, no, clientIn(t, web.NS, path(key("absent"))))
	for name, ns := range map[string]*netns.NS{"test": nil, "node": node, "other": other.NS} {
		require.Equal(t, no, clientIn(t, ns, path(key("web"))), name)
	}
	for _, ns := range []*netns.NS{other.NS, node} {
		require.NoError(t, ns.AddAddr("lo", netip.MustParsePrefix("10.0.0.1/32")))
		require.NoError(t, ns.AddAddr("lo", netip.MustParsePrefix("2001:db8::1/128")))
		require.Equal(t, no, clientIn(t, ns, path(key("web"))), "another workload with the address")
	}
	if os.Getuid() == 0 {
		answer := clientIn(t, web.NS, path(key("web")), userEnv+"=nobody")
		if answer != syscall.EINVAL.Error() { // a user namespace with one user
			require.Equal(t, "WorkloadEndpoint/n/web", answer, "another user in the workload")
		}
	}
}

// A device that is not a pair does not identify a namespace, even if its lower device or outer
// packets are in another namespace. The server refuses all peers of its endpoint, whatever their
// addresses.
func TestOtherDevicesIdentifyNoPeer(t *testing.T) {
	node, pod := nstest.New(t), nstest.New(t)
	require.NoError(t, pod.AddAddr("lo", netip.MustParsePrefix("10.0.0.1/32")))
	require.NoError(t, pod.Do(func() error {
		vxlan := &netlink.Vxlan{LinkAttrs: netlink.NewLinkAttrs(), VxlanId: 1, Port: 4789}
		vxlan.Name = "vx0"
		return errors.Join(netlink.LinkAdd(vxlan), netlink.LinkSetNsFd(vxlan, node.FD()))
	}))
	link, err := node.Link("vx0")
	require.NoError(t, err)
	require.NotZero(t, link.Index)
	server, path := serve(t, policysync.ServerConfig{Authenticate: policysync.InWorkload, NetNS: node.FD()})
	state := world(1, "lo", "vxlan")
	setWorkload(state, "lo", "lo", netip.MustParseAddr("10.0.0.1"))
	setWorkload(state, "vxlan", "vx0", netip.MustParseAddr("10.0.0.1"))
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)))
	for _, name := range []string{"lo", "vxlan"} {
		for _, ns := range []*netns.NS{pod, node} {
			require.Equal(t, no, clientIn(t, ns, path(key(name))), name)
		}
	}
}

// If the configuration enables it, the addresses decide for all devices, except in the node's own
// namespace.
func TestHasAddresses(t *testing.T) {
	node, pod, other := nstest.New(t), nstest.New(t), nstest.New(t)
	addresses := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	for _, ns := range []*netns.NS{node, pod} {
		for _, a := range addresses {
			require.NoError(t, ns.AddAddr("lo", netip.PrefixFrom(a, a.BitLen())))
		}
	}
	require.NoError(t, other.AddAddr("lo", netip.PrefixFrom(addresses[0], 32)))
	server, path := serve(t, policysync.ServerConfig{Authenticate: policysync.HasAddresses, NetNS: node.FD()})
	state := world(1, "a", "anonymous")
	setWorkload(state, "a", "lo", addresses...)
	setWorkload(state, "anonymous", "lo")
	require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)))
	require.Equal(t, "WorkloadEndpoint/n/a", clientIn(t, pod, path(key("a"))))
	for _, ns := range []*netns.NS{node, other, nil} {
		require.Equal(t, no, clientIn(t, ns, path(key("a"))))
	}
	require.Equal(t, no, clientIn(t, pod, path(key("anonymous"))))
}

// The check of a peer takes no more memory if its network namespace has many addresses.
func TestAddressesOfThePeerAreNotListed(t *testing.T) {
	node := nstest.New(t)
	nstest.NewWorkload(t, node, "cali1", "10.0.0.1")
	thief := nstest.NewWorkload(t, node, "cali2", "10.0.0.2")
	require.NoError(t, thief.NS.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		for i := 0; i < 2000 && err == nil; i++ {
			a := netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})
			err = netlink.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)}})
		}
		return err
	}))
	for name, check := range map[string]func(policy.Key, policysync.Peer) error{
		"InWorkload": policysync.InWorkload, "HasAddresses": policysync.HasAddresses,
	} {
		allocated := make(chan uint64, 100)
		server, path := serve(t, policysync.ServerConfig{
			NetNS: node.FD(), Authenticate: func(k policy.Key, p policysync.Peer) error {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := check(k, p)
				runtime.ReadMemStats(&after)
				allocated <- after.TotalAlloc - before.TotalAlloc
				return err
			},
		})
		state := world(1, "a")
		setWorkload(state, "a", "cali1", netip.MustParseAddr("10.0.0.1"))
		require.NoError(t, server.Apply(t.Context(), dptest.Transition(dptest.NewState(), state)))
		require.Equal(t, no, clientIn(t, thief.NS, path(key("a"))), name)
		require.Less(t, <-allocated, uint64(512<<10), name)
	}
}

// A workload is replaced by another one with the same interface and address, without an event. A
// process of the old one whose connection is still open gets no more messages.
func TestProcessOfReplacedWorkloadGetsNothingMore(t *testing.T) {
	node := nstest.New(t)
	before := nstest.NewWorkload(t, node, "cali1", "10.0.0.1")
	server, path := serve(t, policysync.ServerConfig{
		Authenticate: policysync.InWorkload, NetNS: node.FD(), Socket: policysync.Folder(open(t)),
	})
	state := world(1, "web")
	setWorkload(state, "web", "cali1", before.Addresses...)
	state = apply(t, server, dptest.NewState(), state)
	cmd, log := exec.Command(os.Args[0]), nstest.NewLog()
	cmd.Env, cmd.Stdout = append(os.Environ(), socketEnv+"="+path(key("web")), followEnv+"=1"), log
	require.NoError(t, before.NS.Do(cmd.Start))
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait(), "it is killed")
	})
	require.Equal(t, "1 endpoints, 1 policies of WorkloadEndpoint/n/web", strings.TrimSpace(log.Wait(t, "")))

	require.NoError(t, node.DeleteLink("cali1"))
	after := nstest.NewWorkload(t, node, "cali1", "10.0.0.1")
	next := state.Clone()
	next.Policies[policyKey("web")] = &dataplane.Policy{Tier: "default"}
	apply(t, server, state, next)
	require.Equal(t, "0 endpoints, 0 policies of WorkloadEndpoint/n/web", strings.TrimSpace(log.Wait(t, "")))
	require.Equal(t, "WorkloadEndpoint/n/web", clientIn(t, after.NS, path(key("web"))))
}
