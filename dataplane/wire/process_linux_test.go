// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/dptest"
	"github.com/wayleave/wayleave/dataplane/dptest/conformance"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset/simulate"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wire"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// childEnv has the folder of the sockets if this process is a client. The network namespace is file descriptor 3.
const childEnv = "WIRE_TEST_SOCKETS"

// sharedEnv is set if other processes may change the client's table.
const sharedEnv = "WIRE_TEST_SHARED"

func TestMain(m *testing.M) {
	if folder := os.Getenv(childEnv); folder != "" {
		if err := child(folder); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	nstest.Main(m)
}

// child runs clients of nftables and routes, and answers about packets, until its standard input ends.
func child(folder string) error {
	const namespace = 3
	table, err := nft.New(nft.Config{NetNS: namespace, Shared: os.Getenv(sharedEnv) != ""})
	if err != nil {
		return err
	}
	judged := &simulated{Dataplane: table, interfaces: map[string]string{}}
	routing, err := routes.New(routes.Config{NetNS: namespace})
	if err != nil {
		return err
	}
	for name, dp := range map[string]dataplane.Dataplane{"policy": judged, "routes": routing} {
		client, err := wire.NewClient(wire.ClientConfig{Dataplane: dp, Name: name})
		if err != nil {
			return err
		}
		go func() { _ = client.Run(context.Background(), wire.Dial(filepath.Join(folder, name))) }()
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var q question
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			return err
		}
		allowed, err := judged.judge(q)
		if err != nil {
			return err
		}
		fmt.Println(allowed)
	}
	return nil
}

// simulated runs packets through the rules of a Dataplane.
type simulated struct {
	*nft.Dataplane
	mu         sync.Mutex
	interfaces map[string]string // of endpoints, by their names
}

func (s *simulated) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.Events {
		if u, ok := e.(*dataplane.EndpointUpdate); ok {
			s.interfaces[u.Key.Namespace+"/"+u.Key.Name] = u.Endpoint.Interface
		}
	}
	return s.Dataplane.ApplyVisible(ctx, b)
}

func (s *simulated) judge(q question) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sim, err := simulate.New(simulate.Config{Table: s.Table()})
	if err != nil {
		return false, err
	}
	iface := func(n *name) string {
		if n == nil {
			return "eth0"
		}
		return cmp.Or(s.interfaces[n.Namespace+"/"+n.Name], "eth0")
	}
	result, err := sim.Run(ruleset.Forward, simulate.Packet{
		IIFName: iface(q.From), OIFName: iface(q.To),
		Src: netip.MustParseAddr(q.Source), Dst: netip.MustParseAddr(q.Destination), Protocol: q.Protocol,
		SrcPort: q.SourcePort, DstPort: q.DestinationPort,
		Header: [ruleset.HeaderFields]uint16{
			ruleset.HeaderDSCP:     uint16(q.DSCP),
			ruleset.HeaderICMPType: uint16(q.ICMPType), ruleset.HeaderICMPCode: uint16(q.ICMPCode),
		},
	}, simulate.Conn{})
	return result.Verdict == ruleset.Accept, err
}

// startChild starts a process with clients in a namespace.
func startChild(t *testing.T, ns *netns.NS, folder string, env ...string) *program {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), childEnv+"="+folder), env...)
	fd, err := syscall.Dup(ns.FD())
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "namespace")
	defer func() { _ = file.Close() }()
	cmd.ExtraFiles = []*os.File{file}
	return start(t, cmd)
}

// engine is a process with a policy engine: its servers and its driver.
type engine struct {
	policy, routes *wire.Server
	driver         *dataplane.Driver
	sides          []*side
}

func startEngine(t *testing.T, folder string) *engine {
	t.Helper()
	e := &engine{}
	var side *side
	e.policy, side = serve(t, filepath.Join(folder, "policy"), wire.ServerConfig{})
	e.sides = append(e.sides, side)
	e.routes, side = serve(t, filepath.Join(folder, "routes"), wire.ServerConfig{})
	e.sides = append(e.sides, side)
	var err error
	e.driver, err = dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: []dataplane.Dataplane{e.policy, e.routes}})
	require.NoError(t, err)
	e.sides = append(e.sides, run(t, e.driver.Run))
	return e
}

func (e *engine) end() {
	for _, s := range e.sides {
		s.end()
	}
}

// The nftables backend in a second process keeps the contract, and has the verdicts of policy. Each next dataplane
// replaces a process that was killed.
func TestConformanceOfProcess(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		ns, folder := nstest.New(t), t.TempDir()
		var last *program
		var listening *side
		return conformance.Harness{
			Open: func(t *testing.T) dataplane.Dataplane {
				if last != nil {
					last.kill()
					listening.end()
				}
				var server *wire.Server
				server, listening = serve(t, filepath.Join(folder, "policy"), wire.ServerConfig{})
				last = startChild(t, ns, folder, sharedEnv+"=yes")
				last.connected(server)
				return server
			},
			Dump:   func(t *testing.T) string { return sortedRuleset(t, ns) },
			Damage: func(t *testing.T) { nstest.NFT(t, ns, "flush table inet wayleave", "-f", "-") },
			Spoil: func(s dptest.State) policy.Key {
				s.Endpoints[endpointKey("w1")] = &dataplane.Endpoint{Interface: "no/interface"}
				return endpointKey("w1")
			},
			Judge:  func(p dptest.Packet) (bool, error) { return last.judge(p) },
			Worlds: few(),
		}
	})
}

// Routes in a second process keep the contract.
func TestConformanceOfRoutesProcess(t *testing.T) {
	conformance.Run(t, func(t *testing.T) conformance.Harness {
		ns, folder := nstest.New(t), t.TempDir()
		for _, link := range []string{"wl1", "wl2", "wl3"} {
			nstest.NewPeer(t, ns, link)
		}
		nstest.NewPeer(t, ns, "eth0", "192.0.2.1/24", "2001:db8::1/64") // the addresses of the kit's node
		var last *program
		var listening *side
		return conformance.Harness{
			NoIPIP: true, // the kernel may lack it
			Open: func(t *testing.T) dataplane.Dataplane {
				if last != nil {
					last.kill()
					listening.end()
				}
				var server *wire.Server
				server, listening = serve(t, filepath.Join(folder, "routes"), wire.ServerConfig{})
				last = startChild(t, ns, folder)
				last.connected(server)
				return server
			},
			Dump: func(t *testing.T) string { return routesOf(t, ns) },
			Fault: func(t *testing.T) (heal func()) {
				require.NoError(t, ns.Down("wl3"))
				return func() { require.NoError(t, ns.Up("wl3")) }
			},
		}
	})
}

// routesOf lists the routes and neighbour entries that package routes programs, sorted.
func routesOf(t *testing.T, ns *netns.NS) string {
	var list []string
	for _, command := range []string{
		"ip -4 route show table all proto 219", "ip -6 route show table all proto 219",
		"ip neigh show nud permanent",
	} {
		words := strings.Fields(command)
		require.NoError(t, ns.Do(func() error {
			out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
			list = append(list, strings.Split(string(out), "\n")...)
			return err
		}), command)
	}
	slices.Sort(list)
	return strings.Join(list, "\n")
}

// sortedRuleset lists the rules of a namespace. The order of sets and chains, which is that of their making, does not
// count.
func sortedRuleset(t *testing.T, ns *netns.NS) string {
	listing := strings.TrimSuffix(nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "ruleset")), "\n}\n")
	head, rest, _ := strings.Cut(listing, "{\n")
	blocks := strings.Split(rest, "\n\n")
	slices.Sort(blocks)
	return head + strings.Join(blocks, "\n\n")
}

// shop is a node with three workloads: the first must not reach the second, the third may.
func shop(spare int) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "in", Action: policy.Allow}},
		Egress:  []dataplane.Rule{{ID: "out", Action: policy.Allow}},
	}
	s.Sets["s:bad"] = dptest.Set{Members: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.65.0.1/32")}}}
	guard := policy.Key{Kind: policy.KindPolicy, Name: "guard"}
	s.Policies[guard] = &dataplane.Policy{Tier: "default", Ingress: []dataplane.Rule{
		{ID: "bad", Action: policy.Deny, Source: dataplane.Match{Sets: []dataplane.IPSetID{"s:bad"}}},
		{ID: "rest", Action: policy.Allow},
	}}
	for i := range 3 {
		addr := netip.AddrFrom4([4]byte{10, 65, 0, byte(i + 1)})
		e := &dataplane.Endpoint{
			Interface: fmt.Sprintf("way%d", i+1), Addresses: []netip.Addr{addr}, Profiles: []string{"all"},
		}
		if i == 1 {
			e.Ingress = []dataplane.TierPolicies{{
				Tier: "default", DefaultAction: policy.Deny, Policies: []policy.Key{guard},
			}}
		}
		s.Endpoints[endpointKey(e.Interface)] = e
		dst := netip.PrefixFrom(addr, 32)
		s.Routes[dst] = &dataplane.Route{
			Dst: dst, Type: dataplane.RouteLocalWorkload, Node: "n1", Pool: dataplane.PoolDirect,
		}
	}
	s.Sets["s:spare"] = dptest.Set{Members: members(spare)}
	return s
}

// Whichever process is killed, at whatever moment: packets that policy denies never pass, those that it allows always
// do, and the next change takes effect.
func TestKilledUnderTraffic(t *testing.T) {
	node, folder := nstest.New(t), t.TempDir()
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	var workloads []*netns.NS
	for i := range 3 {
		w := nstest.NewWorkload(t, node, fmt.Sprintf("way%d", i+1), fmt.Sprintf("10.65.0.%d", i+1))
		workloads = append(workloads, w.NS)
	}
	const target = "10.65.0.2:80"
	nstest.Serve(t, workloads[1], target, "shop")
	e, c := startEngine(t, folder), startChild(t, node, folder)
	sent := dptest.NewState()
	become := func(to dptest.State) {
		require.NoError(t, e.driver.Send(t.Context(), dptest.Transition(sent, to)))
		sent = to
	}
	become(shop(1))
	for i := range 3 {
		require.NoError(t, e.driver.WaitProgrammed(t.Context(), endpointKey(fmt.Sprintf("way%d", i+1))))
	}
	require.Equal(t, "shop", nstest.Answer(t, workloads[2], "tcp", target))
	require.True(t, nstest.Dropped(t, workloads[0], target))

	stop, answered := make(chan struct{}), make(chan struct{})
	var traffic sync.WaitGroup
	probes := [2]int{}
	for i, passes := range []func() bool{
		func() bool {
			select {
			case answered <- struct{}{}:
			default:
			}
			return nstest.Answer(t, workloads[2], "tcp", target) == "shop"
		},
		func() bool { return nstest.Dropped(t, workloads[0], target) },
	} {
		traffic.Go(func() {
			for ; ; probes[i]++ {
				select {
				case <-stop:
					return
				default:
					if !passes() {
						t.Errorf("probe %d of kind %d has another result", probes[i], i)
					}
				}
			}
		})
	}
	for round := range 8 {
		become(shop(2 + round*300))
		for range round { // each time at another moment of the change
			<-answered
		}
		if round%2 == 0 {
			c.kill()
			c = startChild(t, node, folder)
		} else {
			e.end()
			e, sent = startEngine(t, folder), dptest.NewState()
			become(shop(2 + round*300))
		}
		require.NoError(t, e.driver.WaitProgrammed(t.Context(), endpointKey("way2")))
	}
	close(stop)
	traffic.Wait()
	t.Logf("%d probes were answered, %d were dropped", probes[0], probes[1])
	closed := shop(1)
	closed.Sets["s:bad"] = dptest.Set{Members: []dataplane.Member{{Prefix: netip.MustParsePrefix("10.65.0.0/16")}}}
	become(closed)
	require.NoError(t, e.driver.WaitApplied(t.Context()))
	require.True(t, nstest.Dropped(t, workloads[2], target))
	listing := nstest.NFT(t, node, "", "list", "table", "inet", "wayleave")
	require.True(t, strings.Contains(listing, "10.65.0.0/16"), listing)
}
