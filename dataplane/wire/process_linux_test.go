// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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

// childEnv has the folder of the sockets if this process is a client. The network namespace is file
// descriptor 3.
const childEnv = "WIRE_TEST_SOCKETS"

// sharedEnv is set if other processes may list and change the client's table. Then the client
// defers no deletions.
const sharedEnv = "WIRE_TEST_SHARED"

// engineEnv is like childEnv, for a policy engine.
const engineEnv = "WIRE_TEST_ENGINE"

func TestMain(m *testing.M) {
	for env, work := range map[string]func(string) error{childEnv: child, engineEnv: runEngine, sinkEnv: runSink} {
		if folder := os.Getenv(env); folder != "" {
			if err := work(folder); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	nstest.Main(m)
}

// child runs clients of nftables and routes, and returns verdicts on packets, until its standard
// input ends.
func child(folder string) error {
	const namespace = 3
	table, err := nft.New(nft.Config{NetNS: namespace, Shared: os.Getenv(sharedEnv) != ""})
	if err != nil {
		return err
	}
	judged := &simulated{Dataplane: table, complete: os.Getenv(sharedEnv) != "", interfaces: map[string]string{}}
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
		var q judgeRequest
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
	complete   bool // ApplyVisible defers no deletions
	mu         sync.Mutex
	interfaces map[string]string // interfaces of endpoints, by their names
}

func (s *simulated) ApplyVisible(ctx context.Context, b dataplane.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range b.Events {
		if u, ok := e.(*dataplane.EndpointUpdate); ok {
			s.interfaces[u.Key.Namespace+"/"+u.Key.Name] = u.Endpoint.Interface
		}
	}
	if s.complete {
		return s.Dataplane.Apply(ctx, b)
	}
	return s.Dataplane.ApplyVisible(ctx, b)
}

func (s *simulated) judge(q judgeRequest) (bool, error) {
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

// runEngine runs servers and a Driver. Each line of its standard input is the number of members of
// a set in shop. It responds once the set is programmed.
func runEngine(folder string) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var servers []dataplane.Dataplane
	for _, name := range []string{"policy", "routes"} {
		server, err := wire.NewServer(wire.ServerConfig{})
		if err != nil {
			return err
		}
		listener, err := wire.Listen(filepath.Join(folder, name))
		if err != nil {
			return err
		}
		go func() { _ = server.Serve(ctx, listener) }()
		servers = append(servers, server)
	}
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: servers})
	if err != nil {
		return err
	}
	go func() { _ = driver.Run(ctx) }()
	sent := dptest.NewState()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		spare, err := strconv.Atoi(lines.Text())
		if err != nil {
			return err
		}
		next := shop(spare)
		if err := driver.Send(ctx, dptest.Transition(sent, next)); err != nil {
			return err
		}
		sent = next
		if err := driver.WaitProgrammed(ctx, endpointKey("way2")); err != nil {
			return err
		}
		fmt.Println(spare)
	}
	return nil
}

// startEngine starts a process with a policy engine.
func startEngine(t *testing.T, folder string) *program {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), engineEnv+"="+folder)
	return start(t, cmd)
}

// The nftables backend in a second process keeps the contract, and has the verdicts of policy. Each
// new dataplane replaces a killed process.
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
			NoIPIP: true, // the kernel may not have it
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

// sortedRuleset lists the rules of a namespace. It ignores the order of sets and chains, which is
// the order of creation.
func sortedRuleset(t *testing.T, ns *netns.NS) string {
	listing := strings.TrimSuffix(nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "ruleset")), "\n}\n")
	head, rest, _ := strings.Cut(listing, "{\n")
	blocks := strings.Split(rest, "\n\n")
	slices.Sort(blocks)
	return head + strings.Join(blocks, "\n\n")
}

// shop is a node with three workloads: the first must not reach the second, and the third may. If
// members is -1, no workload may.
func shop(spare int) dptest.State {
	s := dptest.NewState()
	s.InSync = true
	s.Profiles["all"] = &dataplane.Profile{
		Ingress: []dataplane.Rule{{ID: "in", Action: policy.Allow}},
		Egress:  []dataplane.Rule{{ID: "out", Action: policy.Allow}},
	}
	bad := netip.MustParsePrefix("10.65.0.1/32")
	if spare < 0 {
		bad = netip.MustParsePrefix("10.65.0.0/16")
	}
	s.Sets["s:bad"] = dptest.Set{Members: []dataplane.Member{{Prefix: bad}}}
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
	s.Sets["s:spare"] = dptest.Set{Members: members(max(spare, 0))}
	return s
}

// traffic opens connections that policy allows, and sends packets that it denies, until stop.
type traffic struct {
	work             sync.WaitGroup
	stopped          chan struct{}
	receiver         net.PacketConn
	answered         chan struct{} // has a token after each connection
	answers, packets int
}

// startTraffic connects from the third workload and sends from the first, both to the second.
func startTraffic(t *testing.T, workloads []*netns.NS, addr string) *traffic {
	t.Helper()
	tr := &traffic{stopped: make(chan struct{}), answered: make(chan struct{}, 1)}
	require.NoError(t, workloads[1].Do(func() (err error) {
		tr.receiver, err = net.ListenPacket("udp", addr+":81")
		return err
	}))
	tr.repeat(func() {
		if nstest.Answer(t, workloads[2], "tcp", addr+":80") != "shop" {
			t.Error("an allowed connection has no answer")
		}
		tr.answers++
		select {
		case tr.answered <- struct{}{}:
		default:
		}
	})
	tr.repeat(func() {
		err := workloads[0].Do(func() error {
			for range 100 {
				conn, err := net.Dial("udp", addr+":81") // each from another port, so each is a new flow
				if err != nil {
					return err
				}
				_, err = conn.Write([]byte("denied"))
				if err := errors.Join(err, conn.Close()); err != nil {
					return err
				}
				tr.packets++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	return tr
}

// repeat repeats work until stop.
func (tr *traffic) repeat(work func()) {
	tr.work.Go(func() {
		for {
			select {
			case <-tr.stopped:
				return
			default:
				work()
			}
		}
	})
}

// stop ends the traffic. No denied packet may have arrived: the first packet is one from the third
// workload.
func (tr *traffic) stop(t *testing.T, allowed *netns.NS) {
	t.Helper()
	close(tr.stopped)
	tr.work.Wait()
	require.NoError(t, allowed.Do(func() error {
		conn, err := net.Dial("udp", tr.receiver.LocalAddr().String())
		if err != nil {
			return err
		}
		_, err = conn.Write([]byte("allowed"))
		return errors.Join(err, conn.Close())
	}))
	require.NoError(t, tr.receiver.SetReadDeadline(time.Now().Add(10*time.Second)))
	packet := make([]byte, 100)
	n, sender, err := tr.receiver.ReadFrom(packet)
	require.NoError(t, err)
	require.Equal(t, "allowed", string(packet[:n]), "a packet of %v has arrived", sender)
	require.NoError(t, tr.receiver.Close())
	t.Logf("%d connections were answered, %d packets were dropped", tr.answers, tr.packets)
}

// Whichever process is killed, at any moment, denied packets never pass, allowed packets always
// pass, and the next change takes effect.
func TestKilledUnderTraffic(t *testing.T) {
	node, folder := nstest.New(t), t.TempDir()
	require.NoError(t, node.SetSysctl("net/ipv4/ip_forward", "1"))
	var workloads []*netns.NS
	for i := range 3 {
		w := nstest.NewWorkload(t, node, fmt.Sprintf("way%d", i+1), fmt.Sprintf("10.65.0.%d", i+1))
		workloads = append(workloads, w.NS)
	}
	const target = "10.65.0.2"
	nstest.Serve(t, workloads[1], target+":80", "shop")
	engine, clients := startEngine(t, folder), startChild(t, node, folder)
	answer, err := engine.request("1")
	require.NoError(t, err)
	require.Equal(t, "1", answer)
	require.Equal(t, "shop", nstest.Answer(t, workloads[2], "tcp", target+":80"))
	require.True(t, nstest.Dropped(t, workloads[0], target+":80"))

	tr := startTraffic(t, workloads, target)
	for round := range 16 {
		spare := strconv.Itoa(2 + round*300)
		_, err := fmt.Fprintln(engine.input, spare)
		require.NoError(t, err)
		for range round / 2 { // each time at another moment of the change
			<-tr.answered
		}
		if round%2 == 0 {
			clients.kill()
			clients = startChild(t, node, folder)
		} else {
			engine.kill()
			engine = startEngine(t, folder)
			_, err := fmt.Fprintln(engine.input, spare)
			require.NoError(t, err)
		}
		answer, err := engine.output.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, spare, strings.TrimSpace(answer))
	}
	tr.stop(t, workloads[2])
	_, err = engine.request("-1")
	require.NoError(t, err)
	require.True(t, nstest.Dropped(t, workloads[2], target+":80"))
}

// Listen does not replace a socket whose backlog is full, because another process listens on it.
func TestListenWithFullBacklog(t *testing.T) {
	path := socketPath(t)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: path}))
	require.NoError(t, syscall.Listen(fd, 0))
	conn, err := net.Dial("unix", path) // fills it
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = wire.Listen(path)
	require.ErrorIs(t, err, syscall.EAGAIN)
	_, err = os.Lstat(path)
	require.NoError(t, err)
}

// A path may be longer than the address of a socket.
func TestListenOnLongPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), strings.Repeat("f", 200), strings.Repeat("s", 200))
	listener, err := wire.Listen(path)
	require.NoError(t, err)
	conn, err := wire.Dial(path)(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, listener.Close())
	require.NoFileExists(t, path)
}
