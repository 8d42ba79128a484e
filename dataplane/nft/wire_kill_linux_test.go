// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
	"github.com/wayleave/wayleave/policy/worlds"
)

// killedStates is the number of worlds that an agent programs in random order until it is killed.
const killedStates = 40

// killedWorlds returns the worlds of a seed, and the settings that all share. All packets are
// invalid for connection tracking. With KeepInvalid, policy evaluates each of them like a first
// packet.
func killedWorlds(t *testing.T, seed uint64, classes render.ClassesConfig) (*nfttest.Cluster, []verdict.World) {
	t.Helper()
	c := nfttest.NewCluster(t, seed, classes)
	c.Config.Host.KeepInvalid, c.Settings.Host.KeepInvalid = true, true
	c.Interfaces["eth1"], c.Interfaces["eth2"] = nfttest.Addresses("198.51.100.9"), []netip.Addr{}
	var worlds []verdict.World
	for range killedStates {
		for range 10 {
			c.Mutate()
		}
		worlds = append(worlds, maps.Clone(c.Resources))
	}
	return c, worlds
}

// journal records the run of an agent, in memory that outlives the agent. It has the world that the
// agent last began to program, and the world that the agent has programmed.
type journal struct {
	begun, done atomic.Int64
	worlds      [1 << 16]atomic.Int32
}

// openJournal maps the journal in a file.
func openJournal(fd int) (*journal, error) {
	data, err := unix.Mmap(fd, 0, int(unsafe.Sizeof(journal{})), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return (*journal)(unsafe.Pointer(&data[0])), nil
}

// between returns the worlds that the kernel may have had since the world with the number done.
func (j *journal) between(done int64) (worlds []int) {
	for n := done; n <= j.begun.Load(); n++ {
		worlds = append(worlds, int(j.worlds[n].Load()))
	}
	return worlds
}

// agent programs worlds into a namespace.
type agent struct {
	journal *journal
	worlds  []verdict.World
	graph   *calcgraph.Graph
	plane   *nft.Dataplane
	at      verdict.World
}

// newAgent makes an agent for a namespace. The agent uses the given interfaces, or reads those of
// the node if the function is nil.
func newAgent(
	c *nfttest.Cluster, states []verdict.World, j *journal, netns int,
	interfaces func() (map[string]render.Interface, error),
) (*agent, error) {
	a := &agent{journal: j, worlds: states, at: verdict.World{}}
	var err error
	if a.graph, err = calcgraph.New(calcgraph.Config{Node: worlds.Node}); err != nil {
		return nil, err
	}
	a.graph.InSync()
	a.plane, err = nft.New(onFastPath(nft.Config{Renderer: c.Config, NetNS: netns, Interfaces: interfaces}))
	return a, err
}

// program applies a world to the namespace.
func (a *agent) program(t *testing.T, world int) error {
	next := a.worlds[world]
	for _, k := range slices.SortedFunc(maps.Keys(a.at), policy.Key.Compare) {
		if next[k] == nil {
			a.graph.Update(policy.Update{Key: k})
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(next), policy.Key.Compare) {
		if a.at[k] == nil || !policy.Equal(a.at[k], next[k]) {
			a.graph.Update(policy.Update{Key: k, Resource: next[k]})
		}
	}
	a.at = next
	batch := a.graph.Flush()
	n := a.journal.begun.Load() + 1
	a.journal.worlds[n].Store(int32(world))
	a.journal.begun.Store(n)
	if err := a.plane.Apply(t.Context(), batch); err != nil {
		return err
	}
	a.journal.done.Store(n)
	return nil
}

const killedChild = "WAYLEAVE_TEST_KILLED_CHILD"

// TestWireKilledChild is not a test, but the process of the agent that TestWireKilled kills.
func TestWireKilledChild(t *testing.T) {
	if os.Getenv(killedChild) == "" {
		return
	}
	var seed, run uint64
	var chains bool
	_, err := fmt.Sscanf(os.Getenv(killedChild), "%d %d %t", &seed, &run, &chains)
	require.NoError(t, err)
	var classes render.ClassesConfig
	if chains {
		classes = nfttest.Chains()
	}
	c, worlds := killedWorlds(t, seed, classes)
	j, err := openJournal(4)
	require.NoError(t, err)
	a, err := newAgent(c, worlds, j, 3, nil)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(seed, run))
	world := rng.IntN(len(worlds))
	for range 1000 {
		require.NoError(t, a.program(t, world))
		if world = (world + 1) % len(worlds); rng.IntN(4) == 0 {
			world = rng.IntN(len(worlds))
		}
	}
	require.FailNow(t, "the parent did not kill this process")
}

// TestWireKilled kills an agent at random moments of a busy run, and starts the next one with the
// table that it left. Packets are sent all the time. Without a change, exactly those pass that the
// world allows. During a change, no packet passes that all possible worlds deny. The sample
// tolerates one leaked packet per change; WIRE=whole tolerates none. After each kill, the table of
// a new agent equals that of a run from scratch.
func TestWireKilled(t *testing.T) { nfttest.EachFormInParallel(t, testWireKilled) }

func testWireKilled(t *testing.T, classes render.ClassesConfig) {
	for _, seed := range wireSeeds(2, 10) {
		killedRun(t, seed, classes, 10)
	}
}

// killedRun is one run of many kills.
func killedRun(t *testing.T, seed uint64, classes render.ClassesConfig, kills int) {
	t.Helper()
	b := randomWire(t)
	c, worlds := killedWorlds(t, seed, classes)
	fd, err := unix.MemfdCreate("journal", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fd), "journal")
	defer func() { require.NoError(t, file.Close()) }()
	require.NoError(t, unix.Ftruncate(fd, int64(unsafe.Sizeof(journal{}))))
	j, err := openJournal(fd)
	require.NoError(t, err)
	j.begun.Store(-1)
	j.done.Store(-1)
	first, err := newAgent(c, worlds, j, b.node.FD(), nil)
	require.NoError(t, err)
	require.NoError(t, first.program(t, 0))
	require.NoError(t, first.plane.Close())

	p := newProber(t, b, j, c, worlds)
	rng := rand.New(rand.NewPCG(seed, 1<<32))
	runtime.LockOSThread() // the child ends with the thread that started it
	defer runtime.UnlockOSThread()
	for run := range kills {
		cmd := exec.Command("/proc/self/exe", "-test.run", "^TestWireKilledChild$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %t", killedChild, seed, run, classes.TestHook.HasChains()))
		cmd.ExtraFiles = []*os.File{os.NewFile(uintptr(dup(t, b.node.FD())), "netns"), file}
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var output bytes.Buffer
		cmd.Stdout, cmd.Stderr = &output, &output
		require.NoError(t, cmd.Start())
		require.NoError(t, cmd.ExtraFiles[0].Close())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		p.during(t, seed, ended, j.begun.Load(), rng.IntN(150), cmd.Process)
		require.Equal(t, -1, cmd.ProcessState.ExitCode(), "seed %d: killed\n%s", seed, output.String())
		afterKill(t, b, c, worlds, p, seed, rng.IntN(len(worlds)))
	}
	t.Logf("seed %d: %d worlds programmed, %d packets sent, %d passed, %d during a change, of which %d leaked "+
		"and %d were lost",
		seed, j.begun.Load(), p.sent, p.passed, p.changing, p.leaked, p.lost)
	// A commit is not fully atomic: a packet in our chains during a commit uses the previous
	// generation of rules, but the new elements.
	allowance := int(j.begun.Load())
	if wireWhole() {
		allowance = 0
	}
	require.LessOrEqual(t, p.leaked, allowance)
	require.Greater(t, p.passed, 100)
	require.Greater(t, p.forbidden, 100)
}

// afterKill starts an agent with the table that the killed one left, and compares the result with a
// run from scratch.
func afterKill(t *testing.T, b *wire, c *nfttest.Cluster, worlds []verdict.World, p *prober, seed uint64, world int) {
	t.Helper()
	next, err := newAgent(c, worlds, p.journal, b.node.FD(), nil)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- next.program(t, world) }()
	p.until(t, seed, done)
	scratch := nstest.New(t)
	fresh, err := newAgent(c, worlds, new(journal), scratch.FD(), b.interfaces)
	require.NoError(t, err)
	require.NoError(t, fresh.program(t, world))
	require.Equal(t, ours(t, scratch), ours(t, b.node), "seed %d: world %d after a kill", seed, world)
	require.NoError(t, fresh.plane.Close())
	require.NoError(t, next.plane.Close())
}

// interfaces returns the interfaces of the node with their addresses, as the kernel lists them.
func (w *wire) interfaces() (map[string]render.Interface, error) {
	out := map[string]render.Interface{}
	return out, w.node.Do(func() error {
		links, err := net.Interfaces()
		for _, link := range links {
			list, failed := link.Addrs()
			err = errors.Join(err, failed)
			var known render.Interface
			for _, a := range list {
				prefix, failed := netip.ParsePrefix(a.String())
				err = errors.Join(err, failed)
				known.Addresses = append(known.Addresses, prefix.Addr())
			}
			out[link.Name] = known
		}
		return err
	})
}

// ours returns nft's listing of the table, without the order of its parts, which is the order of
// creation.
func ours(t *testing.T, ns *netns.NS) []string {
	t.Helper()
	return blocks(nstest.WithoutOwner(nstest.NFT(t, ns, "", "-s", "list", "table", "inet", "wayleave")))
}

func dup(t *testing.T, fd int) int {
	t.Helper()
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return fd
}

// prober sends packets while worlds change.
type prober struct {
	wire    *wire
	journal *journal
	flows   []wireFlow
	judges  []*verdict.Evaluator
	allowed [killedStates][]bool // by world and flow
	at      int                  // index of the next flow

	sent, passed, forbidden, changing, leaked, lost int
}

// newProber chooses flows of all worlds. Their routes do not change.
func newProber(t *testing.T, b *wire, j *journal, c *nfttest.Cluster, worlds []verdict.World) *prober {
	t.Helper()
	p := &prober{wire: b, journal: j}
	routes := map[netip.Addr]string{}
	for _, w := range worlds {
		e, err := verdict.NewConfigured(w, c.Settings)
		require.NoError(t, err)
		p.judges = append(p.judges, e)
		here := *c
		here.Resources = w
		flows := randomWireFlows(&here, e, 40, func(f verdict.Flow) bool { return f.State == verdict.StateInvalid })
		for _, f := range flows {
			via, known := routes[f.Dst]
			if f.State != verdict.StateInvalid || f.from.Own || f.to.Own || known && via != f.to.Iface {
				continue
			}
			routes[f.Dst] = f.to.Iface
			b.setRoute(t, f.Dst, f.to.Iface)
			p.flows = append(p.flows, f)
		}
	}
	for i, e := range p.judges {
		here := *c
		here.Resources = worlds[i]
		workloads := here.Workloads(e)
		known := func(iface string) bool { // packets of an interface with our prefix and without an endpoint drop
			return !strings.HasPrefix(iface, c.Config.InterfacePrefix) ||
				slices.ContainsFunc(workloads, func(w *policy.WorkloadEndpoint) bool { return w.Interface == iface })
		}
		for _, f := range p.flows {
			p.allowed[i] = append(
				p.allowed[i], e.Evaluate(f.Flow).Combined != verdict.Deny && known(f.from.Iface) && known(f.to.Iface),
			)
		}
	}
	return p
}

// volley sends some of the flows and compares the arrived packets with the worlds that the kernel
// may have had.
func (p *prober) volley(t *testing.T, seed uint64) {
	t.Helper()
	from := p.at
	to := min(from+16, len(p.flows))
	p.at = to % len(p.flows)
	done := p.journal.done.Load()
	arrived := p.wire.volley(t, p.flows[from:to])
	during := p.journal.between(done)
	for i, got := range arrived {
		one, all := false, true
		for _, w := range during {
			one, all = one || p.allowed[w][from+i], all && p.allowed[w][from+i]
		}
		p.sent++
		if got {
			p.passed++
		}
		if !one {
			p.forbidden++
		}
		if len(during) > 1 {
			p.changing++
		}
		if (!got || one) && (got || !all) {
			continue
		}
		var text strings.Builder
		for _, w := range during {
			fmt.Fprintf(&text, "world %d: %s\n", w, p.judges[w].Explain(p.flows[from+i].Flow))
		}
		require.Greaterf(t, len(during), 1, "seed %d: %s passed: %t\n%s", seed, p.flows[from+i].Flow, got, &text)
		if got {
			p.leaked++
			t.Logf("seed %d: %s passed during a commit\n%s", seed, p.flows[from+i].Flow, &text)
		} else {
			p.lost++
		}
	}
}

// until sends until done receives nil.
func (p *prober) until(t *testing.T, seed uint64, done <-chan error) {
	t.Helper()
	for {
		p.volley(t, seed)
		select {
		case err := <-done:
			require.NoError(t, err)
			return
		default:
		}
	}
}

// during sends while a process runs, and kills it a number of volleys after its first change.
func (p *prober) during(t *testing.T, seed uint64, ended <-chan error, before int64, volleys int, process *os.Process) {
	t.Helper()
	for {
		p.volley(t, seed)
		if p.journal.begun.Load() > before {
			if volleys == 0 {
				require.NoError(t, process.Kill())
			}
			volleys--
		}
		select {
		case <-ended:
			return
		default:
		}
	}
}
