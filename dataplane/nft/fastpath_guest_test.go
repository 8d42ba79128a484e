// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package nft_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/dataplane/nft/internal/flowtable"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// fastNetwork is a network with the uplink up0, and an external host.
type fastNetwork struct {
	*network
	outside *netns.NS
	plane   endingPlane
	at      dptest.State
}

// newFastNetwork returns a network in the state, with a dataplane that uses the fast path.
func newFastNetwork(t *testing.T, state dptest.State) *fastNetwork {
	t.Helper()
	return newFastNetworkWith(t, fastConfig(), state)
}

// newFastNetworkWith is newFastNetwork with a configuration of the dataplane.
func newFastNetworkWith(t *testing.T, cfg nft.Config, state dptest.State) *fastNetwork {
	t.Helper()
	nstest.SkipUnlessFlowtables(t, flowtable.Supported())
	n := &fastNetwork{network: newNetwork(t), at: dptest.NewState()}
	n.outside = nstest.NewPeer(t, n.node, "up0", "198.51.100.1/24", "2001:db8:100::1/64")
	nstest.NFT(t, n.node, "table inet slow {\n\tchain forward {\n\t\ttype filter hook forward priority 5\n"+
		"\t\tcounter\n\t}\n}\n", "-f", "-")
	n.plane = openEnding(t, n.node, cfg)
	n.become(t, state)
	return n
}

func fastConfig() nft.Config {
	return nft.Config{
		Renderer:  render.Config{TCPFromSYN: true},
		Flowtable: nft.FlowtableConfig{Enabled: true, Uplinks: []string{"up0"}},
		// Connections that policy denies end, which takes a moment.
		ConntrackPolicy: conntrack.End,
	}
}

func (n *fastNetwork) become(t *testing.T, state dptest.State) {
	t.Helper()
	require.NoError(t, n.plane.Apply(t.Context(), dptest.Transition(n.at, state)))
	n.at = state
}

// slow returns how many packets the forward chains have seen so far.
func (n *fastNetwork) slow(t *testing.T) int {
	t.Helper()
	text := nstest.NFT(t, n.node, "", "list", "chain", "inet", "slow", "forward")
	packets, err := strconv.Atoi(regexp.MustCompile(`packets (\d+)`).FindStringSubmatch(text)[1])
	require.NoError(t, err)
	return packets
}

// connections opens connections of each kind to way2: TCP and UDP, IPv4 and IPv6, from another
// workload and from the external host.
func (n *fastNetwork) connections(t *testing.T) map[string]net.Conn {
	t.Helper()
	all := map[string]net.Conn{}
	for network, port := range map[string]uint16{"tcp": 80, "udp": 53} {
		for from, ns := range map[string]*netns.NS{"way1": n.workloads[0].NS, "outside": n.outside} {
			for family, to := range workloadAddrs(1) {
				name := fmt.Sprintf("%s from %s, IPv%d", network, from, 4+2*family)
				conn := dialWith(ns, net.Dialer{Timeout: waitTimeout}, network, to, port)
				require.NotNil(t, conn, name)
				t.Cleanup(func() { _ = conn.Close() })
				require.True(t, exchange(conn, waitTimeout), name)
				all[name] = conn
			}
		}
	}
	return all
}

// requireFast requires that no packet of the connections is in a chain, or that all are.
func (n *fastNetwork) requireFast(t *testing.T, conns map[string]net.Conn, want bool) {
	t.Helper()
	for name, conn := range conns {
		for range 5 { // the first packets may add the flow to the flowtable
			require.True(t, exchange(conn, waitTimeout), name)
		}
	}
	const exchanges = 10
	inChains, right := map[string]int{}, true
	for name, conn := range conns {
		before := n.slow(t)
		for range exchanges {
			require.True(t, exchange(conn, waitTimeout), name)
		}
		inChains[name] = n.slow(t) - before
		if want {
			right = right && inChains[name] < exchanges/2 // TCP acknowledgements may come late
		} else {
			right = right && inChains[name] >= 2*exchanges
		}
	}
	if !right {
		require.Fail(t, "wrong path", "packets in chains, of %d: %v\n%s", 2*exchanges, inChains,
			nstest.NFT(t, n.node, "", "list", "ruleset"))
	}
}

// requireCut requires that no packet of the connections arrives any more.
func (n *fastNetwork) requireCut(t *testing.T, conns map[string]net.Conn) {
	t.Helper()
	var all sync.WaitGroup
	for name, conn := range conns {
		all.Go(func() {
			for range 3 {
				if exchange(conn, dropTimeout) {
					t.Errorf("%s goes on", name)
				}
			}
		})
	}
	all.Wait()
}

// Packets of established connections bypass the chains. Policy still evaluates a new connection.
func TestFastPath(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	n.become(t, edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Profiles = nil }))
	for _, to := range workloadAddrs(1) {
		require.Nil(t, n.dial(t, 0, to, 80, dropTimeout), "a new connection")
	}
}

// S35, S168, S173: once a change that ends connections is applied, no packet of them takes the fast
// path.
func TestFastPathEnds(t *testing.T) {
	for name, change := range map[string]func(s dptest.State) dptest.State{
		"endpoint down": func(s dptest.State) dptest.State {
			return edit(s, "way2", func(e *dataplane.Endpoint) { e.Down = true })
		},
		"endpoint removed": func(s dptest.State) dptest.State {
			s = s.Clone()
			delete(s.Endpoints, endpointKey("way2"))
			return s
		},
		"address moved": func(s dptest.State) dptest.State {
			s = edit(s, "way2", func(e *dataplane.Endpoint) { e.Addresses = addrs("10.99.0.77") })
			return edit(s, "way3", func(e *dataplane.Endpoint) {
				e.Addresses = append(workloadAddrs(1), workloadAddrs(2)...)
			})
		},
		"two endpoints of one interface": func(s dptest.State) dptest.State {
			s = s.Clone()
			s.Endpoints[endpointKey("second")] = &dataplane.Endpoint{
				Interface: "way2", Addresses: addrs("10.99.0.78"), Profiles: []string{"all"},
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFastNetwork(t, shop())
			conns := n.connections(t)
			n.requireFast(t, conns, true)
			state := change(shop())
			_ = n.plane.Apply(t.Context(), dptest.Transition(n.at, state)) // endpoints at fault are errors
			n.requireCut(t, conns)
		})
	}
}

// S116 and S173 with conntrack.End: a connection that policy denies from now on ends, although no
// rule of policy evaluates its packets. If only policy changes, the flowtable stays. The same holds
// if policy counts and logs.
func TestFastPathEndsByPolicy(t *testing.T) {
	denied := shop()
	denied.Profiles["all"] = &dataplane.Profile{Egress: denied.Profiles["all"].Egress}
	logged := fastConfig()
	logged.Renderer.Counters, logged.Renderer.VerdictLog.Enabled = true, true
	for _, tt := range []struct {
		name  string
		cfg   nft.Config
		to    dptest.State
		stays bool
	}{
		{"endpoint", fastConfig(), edit(shop(), "way2", func(e *dataplane.Endpoint) { e.Profiles = nil }), false},
		{"policy", fastConfig(), denied, true},
		{"policy with counters and log", logged, denied, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newFastNetworkWith(t, tt.cfg, shop())
			conns := n.connections(t)
			n.requireFast(t, conns, true)
			before := n.flowtable(t)
			require.NotEmpty(t, before)
			err := n.plane.ApplyVisible(t.Context(), dptest.Transition(n.at, tt.to))
			require.NoError(t, err)
			if tt.stays {
				require.Equal(t, before, n.flowtable(t))
			} else {
				require.Empty(t, n.flowtable(t))
			}
			n.become(t, tt.to)
			swept(t, n.plane)
			n.requireCut(t, conns)
		})
	}
}

// flowtable returns the name and the handle of the table with the flowtable, empty if there is
// none.
func (n *fastNetwork) flowtable(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(nstest.NFT(t, n.node, "", "-a", "list", "tables")) {
		if strings.Contains(line, "wayleave-flowtable") {
			return line
		}
	}
	return ""
}

// A packet from a workload's false source to the external host drops (S119). It drops although the
// connection is established for connection tracking, and although packets in the other direction
// pass.
func TestFastPathIsForOwnAddresses(t *testing.T) {
	n := newFastNetwork(t, shop())
	for _, foreign := range addrs("10.99.0.77", "fd00:99::77") {
		require.NoError(t, n.workloads[1].NS.AddAddr("eth0", netip.PrefixFrom(foreign, foreign.BitLen())))
		n.route(t, foreign, 1)
		conn := dialWith(n.outside, net.Dialer{}, "udp", foreign, 53)
		require.NotNil(t, conn)
		for range 5 {
			require.False(t, exchange(conn, dropTimeout))
		}
		require.NoError(t, conn.Close())
	}
}

// Connections lose no packet while endpoints are added and removed, and use the fast path again
// afterwards.
func TestFastPathChangesWithoutLoss(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	other := edit(shop(), "way3", func(e *dataplane.Endpoint) { e.Down = true })
	done := make(chan struct{})
	var running sync.WaitGroup
	exchanges := make(map[string]*int)
	for name, conn := range conns {
		count := new(int)
		exchanges[name] = count
		running.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if !exchange(conn, waitTimeout) {
					t.Errorf("%s lost a packet", name)
					return
				}
				*count++
			}
		})
	}
	for i := range 40 {
		n.become(t, []dptest.State{other, shop()}[i%2])
	}
	require.NoError(t, n.plane.Resync(t.Context()))
	close(done)
	running.Wait()
	for name, count := range exchanges {
		require.Greater(t, *count, 40, name)
	}
	n.requireFast(t, conns, true)
}

// While a host endpoint has untracked policy, which decides about each packet, none takes the fast
// path.
func TestFastPathMeetsUntrackedPolicy(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	key := policy.Key{Kind: policy.KindPolicy, Name: "raw"}
	state := shop()
	state.Policies[key] = &dataplane.Policy{
		Tier: "default", Untracked: true,
		Ingress: []dataplane.Rule{{ID: "none", Action: policy.Deny, Source: dataplane.Match{
			Nets: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		}}},
	}
	state.HostEndpoints[policy.Key{Kind: policy.KindHostEndpoint, Name: "up0"}] = &dataplane.HostEndpoint{
		Interface: "up0", Profiles: []string{"all"},
		UntrackedIngress: []dataplane.TierPolicies{
			{Tier: "default", DefaultAction: policy.Pass, Policies: []policy.Key{key}},
		},
	}
	n.become(t, state)
	n.requireFast(t, conns, false)
	n.become(t, shop())
	n.requireFast(t, conns, true)
}

// The fast path ends with its process, and connections continue. Teardown removes it too.
func TestFastPathEndsWithItsProcess(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	maps.DeleteFunc(conns, func(name string, _ net.Conn) bool { // its servers close it after a while
		return strings.HasPrefix(name, "tcp")
	})
	n.requireFast(t, conns, true)
	cfg := fastConfig()
	for _, enabled := range []bool{false, true} {
		require.NoError(t, n.plane.Close())
		n.requireFast(t, conns, false)
		logger, done := eventLogger("no sweep is pending")
		cfg.Flowtable.Enabled, cfg.Conntrack.Logger = enabled, logger
		n.plane = endingPlane{openExactly(t, n.node, cfg), done}
		require.NoError(t, n.plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
		n.requireFast(t, conns, enabled)
	}
	plan, err := n.plane.PlanTeardown(t.Context())
	require.NoError(t, err)
	require.Contains(t, plan, "delete table inet wayleave-flowtable\n")
	require.NoError(t, n.plane.Teardown(t.Context()))
	require.Equal(t, "table inet slow\n", nstest.NFT(t, n.node, "", "list", "tables"))
}

// The same holds for a process that is killed.
func TestFastPathEndsWithKilledProcess(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	maps.DeleteFunc(conns, func(name string, _ net.Conn) bool { return strings.HasPrefix(name, "tcp") })
	require.NoError(t, n.plane.Close())

	node := os.NewFile(uintptr(dup(t, n.node.FD())), "netns")
	child := exec.Command("/proc/self/exe", "-test.run", "^TestFastPathChild$")
	child.Env, child.ExtraFiles = append(os.Environ(), fastPathChild+"=1"), []*os.File{node}
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	require.NoError(t, node.Close())
	for lines := bufio.NewScanner(out); lines.Text() != fastPathChild; { // it has programmed the node
		require.True(t, lines.Scan())
	}
	n.requireFast(t, conns, true)
	require.NoError(t, child.Process.Kill())
	_ = child.Wait()
	require.Eventually(t, func() bool {
		return !strings.Contains(nstest.NFT(t, n.node, "", "list", "tables"), "wayleave-flowtable")
	}, waitTimeout, 10*time.Millisecond)
	n.requireFast(t, conns, false)
}

// fastPathChild is the environment variable that makes TestFastPathChild the process that
// TestFastPathEndsWithKilledProcess kills.
const fastPathChild = "FAST_PATH_CHILD"

func TestFastPathChild(t *testing.T) {
	if os.Getenv(fastPathChild) == "" {
		return
	}
	cfg := fastConfig()
	cfg.NetNS = 3
	cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	plane, err := nft.New(cfg)
	require.NoError(t, err)
	require.NoError(t, plane.Apply(t.Context(), dptest.Transition(dptest.NewState(), shop())))
	fmt.Println(fastPathChild)
	time.Sleep(time.Minute)
	runtime.KeepAlive(plane) // otherwise the garbage collector closes its socket, which ends the fast path
}

// An interface that gets another name no longer belongs to its endpoint. Watch reports that. Then
// Resync deletes the flowtable, which identifies interfaces by their indexes.
func TestFastPathEndsWithName(t *testing.T) {
	n := newFastNetwork(t, shop())
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	ctx, cancel := context.WithCancel(t.Context())
	drifts, ended := make(chan dataplane.Drift, 100), make(chan error)
	go func() { ended <- n.plane.Watch(ctx, func(d dataplane.Drift) { drifts <- d }) }()
	nstest.Rename(t, n.node, "way2", "old2")
	for drift := (dataplane.Drift{}); drift.Object != "the name of interface way2"; {
		select {
		case drift = <-drifts:
		case <-time.After(waitTimeout):
			require.Fail(t, "not reported")
		}
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, n.plane.Resync(t.Context()))
	require.NotContains(t, nstest.NFT(t, n.node, "", "list", "flowtables"), "old2")
	// Before Linux 6.2, the interface loses its routes, because it must be down to get a name. On
	// later kernels, packets still pass, but through the chains.
	for name, conn := range conns {
		before := n.slow(t)
		if exchange(conn, dropTimeout) {
			require.GreaterOrEqual(t, n.slow(t)-before, 2, name)
		}
	}
}

// Connection tracking counts the packets on the fast path.
func TestFastPathCounts(t *testing.T) {
	n := newFastNetwork(t, shop())
	require.NoError(t, n.node.SetSysctl("net/netfilter/nf_conntrack_acct", "1"))
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	kernel, err := conntrack.Dial(conntrack.ConnConfig{NetNS: n.node.FD()})
	require.NoError(t, err)
	defer func() { require.NoError(t, kernel.Close()) }()
	counted := 0
	each := func(_ *conntrack.Flow, c conntrack.Counters) {
		if c.OriginalPackets >= 15 && c.ReplyPackets >= 15 { // of requireFast
			counted++
		}
	}
	require.NoError(t, kernel.EachCounted(t.Context(), func() { counted = 0 }, each))
	require.Equal(t, len(conns), counted)
}

// The flowtable is not installed after a failed change, here of the owner of an address.
func TestFastPathNotInstalledAfterFailure(t *testing.T) {
	n := newFastNetwork(t, shop())
	require.NoError(t, n.plane.ApplyVisible(t.Context(), dptest.Transition(n.at, edit(shop(), "way3",
		func(e *dataplane.Endpoint) { e.Down = true }))))
	<-n.plane.Unfinished()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, n.plane.Apply(done, dptest.Transition(n.at, edit(shop(), "way3", func(e *dataplane.Endpoint) {
		e.Addresses = workloadAddrs(1)
	}))), context.Canceled)
	require.Nil(t, n.plane.Unfinished())
	require.NotContains(t, nstest.NFT(t, n.node, "", "list", "tables"), "flowtable")
}

// An uplink that appears later is used, without a change of endpoints. While it is missing,
// connections between workloads already take the fast path.
func TestFastPathOfLaterInterface(t *testing.T) {
	nstest.SkipUnlessFlowtables(t, flowtable.Supported())
	n := &fastNetwork{network: newNetwork(t), at: dptest.NewState()}
	cfg := fastConfig()
	cfg.Flowtable.Uplinks = []string{"up0"}
	n.plane = openEnding(t, n.node, cfg)
	n.become(t, shop())
	devices := func() []string {
		tables, err := ruleset.ParseTables(nstest.NFT(t, n.node, "", "list", "table", "inet", "wayleave-flowtable"))
		require.NoError(t, err)
		return tables[0].Flowtables[0].Devices
	}
	require.NotContains(t, devices(), "up0")
	nstest.NewPeer(t, n.node, "up0", "198.51.100.1/24")
	for i := 0; n.plane.Unfinished() != nil; i++ {
		require.Less(t, i, 5)
		require.NoError(t, n.plane.Finish(t.Context()))
	}
	require.ElementsMatch(t, []string{"up0", "way1", "way2", "way3"}, devices())
}

// A change of policy ends a UDP connection on the fast path. The connection does not continue with
// a late reply, although it is unknown how long the kernel would have tracked it.
func TestFastPathLeavesNoLateReplies(t *testing.T) {
	key := policy.Key{Kind: policy.KindPolicy, Namespace: "test", Name: "all"}
	ruled := func(action policy.Action) dptest.State {
		s := edit(shop(), "way2", func(e *dataplane.Endpoint) {
			e.Ingress = []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{key},
			}}
		})
		s.Policies[key] = &dataplane.Policy{
			Tier: "default", Ingress: []dataplane.Rule{{ID: "all", Action: action}},
		}
		return s
	}
	n := newFastNetwork(t, ruled(policy.Allow))
	conns := n.connections(t)
	n.requireFast(t, conns, true)
	n.become(t, ruled(policy.Deny))
	require.Contains(t, nstest.NFT(t, n.node, "", "list", "tables"), "wayleave-flowtable")
	swept(t, n.plane)
	n.requireCut(t, conns)
	listing := nstest.NFT(t, n.node, "", "list", "table", "inet", "wayleave-ended")
	require.Regexp(t, `10\.99\.0\.2 \. .* timeout 10m`, listing)
}
