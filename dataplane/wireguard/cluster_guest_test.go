// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.zx2c4.com/wireguard/wgctrl"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// These tests need the kernel's module wireguard; scripts/test-kernels runs them.

// waitTimeout is how long a test waits for a state, in a slow guest.
const waitTimeout = 2 * time.Minute

// cluster is some nodes, each a namespace with a graph, a driver, package routes and this package,
// and a bridge between them. Node i has 192.0.2.i and 2001:db8::i, and the blocks 10.65.i.0/26 and
// fd65::i:0/122. The first address of each block is for the node's WireGuard devices, and the node
// has a pod with the second one.
type cluster struct {
	*testing.T
	underlay *netns.NS
	nodes    []*node

	mu        sync.Mutex // held while graphs are used
	resources map[policy.Key]policy.Resource
}

// node is one of the nodes.
type node struct {
	*cluster
	name   string
	text   string // the answer of its servers
	ns     *netns.NS
	pod    *netns.Workload
	cfg    wireguard.Config
	driver *dataplane.Driver
	graph  *calcgraph.Graph
	stop   func()
	// resource is the node's resource. Only with mu.
	resource policy.Node
	// dropAnnouncements keeps announcements out of the resource.
	dropAnnouncements bool
	// policed adds package nft.
	policed bool
	// rotationDelay sets wireguard.Config.RotationDelay, and may be less than New accepts.
	rotationDelay time.Duration
	// child is the process that keeps the node instead of start. Only with mu.
	child *child
}

// newCluster makes nodes with a configuration, and waits until they encrypt. change may be nil.
func newCluster(t *testing.T, count int, change func(*wireguard.Config)) *cluster {
	c := newUnderlay(t, count, change)
	for _, n := range c.nodes {
		n.start()
	}
	c.awaitKeys()
	return c
}

// newUnderlay makes the nodes, and starts none.
func newUnderlay(t *testing.T, count int, change func(*wireguard.Config)) *cluster {
	c := &cluster{T: t, underlay: nstest.New(t), resources: map[policy.Key]policy.Resource{}}
	c.run(c.underlay, "ip link add dev net type bridge")
	c.run(c.underlay, "ip link set dev net up")
	for i := range count {
		n := c.addNode(i + 1)
		if change != nil {
			change(&n.cfg)
		}
	}
	allow := []policy.Rule{{Action: policy.Allow}}
	c.set(
		&policy.IPPool{Name: "four", CIDR: netip.MustParsePrefix("10.65.0.0/16")},
		&policy.IPPool{Name: "six", CIDR: netip.MustParsePrefix("fd65::/64")},
		&policy.Profile{Name: "open", Ingress: allow, Egress: allow},
	)
	return c
}

func (c *cluster) addNode(i int) *node {
	c.Helper()
	n := &node{cluster: c, name: fmt.Sprintf("n%d", i), text: fmt.Sprintf("hello from n%d", i), ns: nstest.New(c.T)}
	n.rotationDelay = 5 * time.Second
	_, _, err := netns.Veth(netns.End{NS: n.ns, Name: "eth0"}, netns.End{NS: c.underlay, Name: "to-" + n.name})
	require.NoError(c, err)
	c.run(c.underlay, "ip link set dev to-%s master net", n.name)
	four := netip.MustParsePrefix(fmt.Sprintf("192.0.2.%d/24", i))
	six := netip.MustParsePrefix(fmt.Sprintf("2001:db8::%d/64", i))
	require.NoError(c, n.ns.AddAddr("eth0", four))
	require.NoError(c, n.ns.AddAddr("eth0", six))
	// Packets that a node forwards by its default routes appear in the network between the nodes.
	for family, gateway := range map[string]string{"-4": "192.0.2.254", "-6": "2001:db8::254"} {
		c.run(n.ns, "ip neigh add %s lladdr 02:00:00:00:00:fe dev eth0 nud permanent", gateway)
		c.run(n.ns, "ip %s route add default via %s dev eth0", family, gateway)
	}
	for _, setting := range []string{"eth0/forwarding", "eth0/rp_filter", "all/rp_filter"} {
		require.NoError(c, n.ns.SetSysctl("net/ipv4/conf/"+setting, "1"))
	}
	n.pod = nstest.NewWorkload(c.T, n.ns, "cali-"+n.name, fmt.Sprintf("10.65.%d.1", i), fmt.Sprintf("fd65::%d:1", i))
	n.resource = policy.Node{
		Name: n.name, Addresses: []netip.Prefix{four, six},
		IPv4WireguardAddr: netip.MustParseAddr(fmt.Sprintf("10.65.%d.0", i)),
		IPv6WireguardAddr: netip.MustParseAddr(fmt.Sprintf("fd65::%d:0", i)),
	}
	n.cfg = wireguard.Config{
		Node: n.name, NetNS: n.ns.FD(),
		Devices: []wireguard.Device{{KeyFile: filepath.Join(c.TempDir(), "first.key")}},
	}
	n.serve()
	c.nodes = append(c.nodes, n)
	resource := n.resource
	c.set(
		&resource,
		&policy.Block{CIDR: netip.MustParsePrefix(fmt.Sprintf("10.65.%d.0/26", i)), Node: n.name},
		&policy.Block{CIDR: netip.MustParsePrefix(fmt.Sprintf("fd65::%d:0/122", i)), Node: n.name},
		n.endpoint(n.name, n.pod),
	)
	return n
}

// endpoint returns the resource of a pod on the node.
func (n *node) endpoint(name string, pod *netns.Workload) *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{
		Namespace: "shop", Name: name, Node: n.name, Interface: pod.Host.Name, Addresses: pod.Addresses,
		MAC: pod.Link.MAC.String(), Labels: map[string]string{"pod": name}, Profiles: []string{"open"},
	}
}

// keyLifetime is the lifetime of keys on nodes with two devices.
const keyLifetime = time.Hour

// twoDevices gives a configuration a second device, and keys a lifetime.
func twoDevices(cfg *wireguard.Config) {
	cfg.Devices = append(cfg.Devices, wireguard.Device{
		KeyFile: filepath.Join(filepath.Dir(cfg.Devices[0].KeyFile), "second.key"),
	})
	cfg.KeyLifetime = keyLifetime
}

// set updates resources in the graphs of all nodes that run.
func (c *cluster) set(resources ...policy.Resource) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range resources {
		c.resources[r.Key()] = r
	}
	for _, n := range c.nodes {
		if n.child != nil {
			n.child.send(resources...)
			n.child.endBatch()
		}
		if n.graph == nil {
			continue
		}
		for _, r := range resources {
			n.graph.Update(policy.Update{Key: r.Key(), Resource: r})
		}
		_ = n.driver.Send(context.Background(), n.graph.Flush()) // it may have stopped
	}
}

// remove removes a resource from the graphs of all nodes that run.
func (c *cluster) remove(key policy.Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.resources, key)
	for _, n := range c.nodes {
		if n.graph != nil {
			n.graph.Update(policy.Update{Key: key})
			_ = n.driver.Send(context.Background(), n.graph.Flush()) // it may have stopped
		}
	}
}

// change changes the resource of a node.
func (n *node) change(change func(*policy.Node)) {
	n.mu.Lock()
	change(&n.resource)
	resource := n.resource
	n.mu.Unlock()
	n.set(&resource)
}

// start runs the node, with package routes.
func (n *node) start() {
	n.Helper()
	announcements, ctx := make(chan []policy.WireguardKey, 100), context.Background()
	n.cfg.Announce = func(keys []policy.WireguardKey) { announcements <- keys }
	routing, err := routes.New(routes.Config{NetNS: n.ns.FD(), ForwardAllIPv6: true})
	require.NoError(n, err)
	wg, err := wireguard.New(n.cfg)
	require.NoError(n, err)
	wg.SetRotationDelay(n.rotationDelay)
	table, err := nft.New(nft.Config{NetNS: n.ns.FD(), Renderer: render.Config{InterfacePrefix: "cali"}})
	require.NoError(n, err)
	dataplanes := []dataplane.Dataplane{table, wg, routing}
	if !n.policed {
		dataplanes = dataplanes[1:]
	}
	driver, err := dataplane.NewDriver(dataplane.DriverConfig{Dataplanes: dataplanes})
	require.NoError(n, err)
	graph, err := calcgraph.New(calcgraph.Config{Node: n.name, UnreachableRoutes: true, Hooks: calcgraph.Hooks{
		Rejected: func(key policy.Key, err error) { n.Errorf("%s: %v", key, err) },
	}})
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(ctx)
	var ended sync.WaitGroup
	ended.Go(func() { _ = driver.Run(ctx) })
	ended.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case keys := <-announcements:
				if !n.dropAnnouncements {
					n.change(func(resource *policy.Node) { resource.WireguardKeys = keys })
				}
			}
		}
	})
	n.mu.Lock()
	n.graph, n.driver = graph, driver
	for key, r := range n.resources {
		graph.Update(policy.Update{Key: key, Resource: r})
	}
	graph.InSync()
	require.NoError(n, driver.Send(ctx, graph.Flush()))
	n.mu.Unlock()
	once := sync.OnceFunc(func() {
		n.mu.Lock()
		n.graph = nil
		n.mu.Unlock()
		cancel()
		ended.Wait()
		_ = errors.Join(routing.Close(), wg.Close(), table.Close())
	})
	n.stop = once
	n.Cleanup(once)
}

// snapshot returns the batch of a graph that starts with all resources.
func (n *node) snapshot() dataplane.Batch {
	n.Helper()
	graph, err := calcgraph.New(calcgraph.Config{Node: n.name, UnreachableRoutes: true})
	require.NoError(n, err)
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, r := range n.resources {
		graph.Update(policy.Update{Key: key, Resource: r})
	}
	graph.InSync()
	return graph.Flush()
}

// run runs a command in a namespace.
func (c *cluster) run(ns *netns.NS, command string, args ...any) string {
	c.Helper()
	words := strings.Fields(fmt.Sprintf(command, args...))
	var out []byte
	err := ns.Do(func() (err error) {
		out, err = exec.Command(words[0], words[1:]...).CombinedOutput()
		return err
	})
	require.NoError(c, err, "%s: %s", strings.Join(words, " "), out)
	return string(out)
}

// list returns the lines of a command with a text.
func (n *node) list(text, command string, args ...any) (lines []string) {
	n.Helper()
	for line := range strings.Lines(n.run(n.ns, command, args...)) {
		if strings.Contains(line, text) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// until waits until a condition holds.
func (c *cluster) until(what string, ok func() bool) {
	c.Helper()
	require.Eventually(c, ok, waitTimeout, 50*time.Millisecond, what)
}

// awaitKeys waits until all nodes use the devices for packets to all others.
func (c *cluster) awaitKeys() {
	c.Helper()
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if n != other {
				for _, a := range other.pod.Addresses {
					c.until(n.name+" to "+a.String(), func() bool { return strings.HasPrefix(n.outInterface(a), "wg") })
				}
			}
		}
	}
}

// outInterface returns the interface by which the node forwards to an address, or the type of the
// route.
func (n *node) outInterface(to netip.Addr) string {
	n.Helper()
	from := n.pod.Addresses[0]
	if to.Is6() {
		from = n.pod.Addresses[1]
	}
	var out []byte
	err := n.ns.Do(func() (err error) {
		out, err = exec.Command("ip", "-o", "route", "get", to.String(), "from", from.String(), "iif", n.pod.Host.Name).
			CombinedOutput()
		return err
	})
	if err != nil {
		return strings.TrimSpace(string(out))
	}
	_, after, _ := strings.Cut(string(out), " dev ")
	dev, _, _ := strings.Cut(after, " ")
	return dev
}

// port is the port of the servers on pods and nodes.
const port = 7777

// serve starts the servers.
func (n *node) serve() {
	n.Helper()
	for _, a := range n.pod.Addresses {
		nstest.Serve(n.T, n.pod.NS, netip.AddrPortFrom(a, port).String(), n.text)
	}
	for _, a := range n.resource.Addresses {
		nstest.Serve(n.T, n.ns, netip.AddrPortFrom(a.Addr(), port).String(), n.text)
	}
}

// requireReachable checks that every pod and every node reaches every other pod and node in both
// families.
func (c *cluster) requireReachable() {
	c.Helper()
	for _, n := range c.nodes {
		for _, other := range c.nodes {
			if n == other {
				continue
			}
			for _, from := range []*netns.NS{n.pod.NS, n.ns} {
				for i, a := range other.pod.Addresses {
					for _, a := range []netip.Addr{a, other.resource.Addresses[i].Addr()} {
						isPod := from == n.pod.NS
						require.Equal(c, other.text, c.answer(from, a), "%s (pod: %t) to %s", n.name, isPod, a)
					}
				}
			}
		}
	}
}

// answer returns the name of the server that answers at an address, or the text of the error. It
// tries twice: if the first message of a WireGuard session is lost, the sender repeats it after 5
// seconds (REKEY_TIMEOUT), and a connection waits no longer for its answer.
func (c *cluster) answer(from *netns.NS, a netip.Addr) string {
	c.Helper()
	to := netip.AddrPortFrom(a, port).String()
	got := nstest.Answer(c.T, from, "tcp", to)
	if strings.HasSuffix(got, "i/o timeout") {
		got = nstest.Answer(c.T, from, "tcp", to)
	}
	return got
}

// capture records the packets of a node's link in the network between the nodes.
type capture struct {
	*nstest.Capture
	secrets [][]byte
}

func (n *node) capture() *capture {
	n.Helper()
	var pods, others []netip.Addr
	var texts []string
	for _, other := range n.nodes {
		pods, texts = append(pods, other.pod.Addresses...), append(texts, other.text)
		others = append(others, other.resource.IPv4WireguardAddr)
		for _, a := range other.resource.Addresses {
			others = append(others, a.Addr())
		}
	}
	return &capture{nstest.NewCapture(n.T, n.underlay, "to-"+n.name), secretsOf(pods, others, texts...)}
}

// packets returns the texts of the packets since the last call.
func (p *capture) packets() []string { return packetTexts(p.Packets(), p.secrets) }

// device returns the state of a device of the node.
func (n *node) device(name string) *wgtypes.Device {
	n.Helper()
	var got *wgtypes.Device
	require.NoError(n, n.ns.Do(func() error {
		client, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer client.Close()
		got, err = client.Device(name)
		return err
	}))
	return got
}

// configure changes a device of the node like another process.
func (n *node) configure(name string, cfg wgtypes.Config) {
	n.Helper()
	require.NoError(n, n.ns.Do(func() error {
		client, err := wgctrl.New()
		if err != nil {
			return err
		}
		defer client.Close()
		return client.ConfigureDevice(name, cfg)
	}))
}

// startTraffic sends packets from the pod of one node to that of another, which answers each. The
// returned function stops it and returns the numbers of packets and answers.
func (n *node) startTraffic(to *node, address netip.Addr) (end func() (sent, answered int)) {
	n.Helper()
	var echo net.PacketConn
	require.NoError(n, to.pod.NS.Do(func() (err error) {
		echo, err = net.ListenPacket("udp", net.JoinHostPort(address.String(), "0"))
		return err
	}))
	var conn net.Conn
	require.NoError(n, n.pod.NS.Do(func() (err error) {
		conn, err = net.Dial("udp", echo.LocalAddr().String())
		return err
	}))
	ctx, cancel := context.WithCancel(context.Background())
	echoed, sending, receiving := make(chan struct{}), make(chan int, 1), make(chan int, 1)
	go func() {
		defer close(echoed)
		buf := make([]byte, 1<<11)
		for {
			n, sender, err := echo.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(buf[:n], sender) // a lost answer is counted
		}
	}()
	go func() {
		tick, sent := time.NewTicker(20*time.Millisecond), 0
		defer tick.Stop()
		for ctx.Err() == nil {
			_, _ = conn.Write(binary.BigEndian.AppendUint32(nil, uint32(sent)))
			sent++
			<-tick.C
		}
		sending <- sent
	}()
	go func() {
		buf, answers := make([]byte, 1<<11), map[uint32]bool{}
		for {
			n, err := conn.Read(buf)
			switch {
			case n == 4:
				answers[binary.BigEndian.Uint32(buf)] = true
			case errors.Is(err, os.ErrDeadlineExceeded):
				receiving <- len(answers)
				return
			}
		}
	}()
	return func() (sent, answered int) {
		cancel()
		sent = <-sending
		require.NoError(n, conn.SetReadDeadline(time.Now().Add(5*time.Second))) // for the last answers
		answered = <-receiving
		require.NoError(n, errors.Join(conn.Close(), echo.Close()))
		<-echoed
		return sent, answered
	}
}
