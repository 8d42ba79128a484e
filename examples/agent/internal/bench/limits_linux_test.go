// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
)

// limited is a case: resources, and the memory that the agent may use for them.
type limited struct {
	name string
	// limit of the cgroup, in MiB.
	limit int
	// These are numbers of objects:
	//
	//   - endpoints: all endpoints, of which the first are local
	//   - policies: all policies
	//   - relevant: the policies that select a local endpoint
	//   - prefixes: the prefixes in network sets
	//   - usedSets: the network sets that the policies of local endpoints use
	endpoints, policies, relevant, prefixes, usedSets int
	// works means that the memory is sufficient. Otherwise the agent must end with an error.
	works bool
}

const setSize = 10_000

// smallCases are part of every run.
func smallCases() []limited {
	return []limited{
		{"small", 64, 150, 100, 100, 0, 0, true},
		{"small with prefixes", 64, 150, 100, 100, 10_000, 1, false},
	}
}

// largeCases are for BenchmarkCgroupLimit with -full.
func largeCases() []limited {
	return []limited{
		{"prefixes that no policy uses", 512, 1000, 100, 100, 1_000_000, 0, true},
		{"prefixes in use", 512, 1000, 100, 100, 1_000_000, 100, false},
		{"policies of other nodes", 512, 1000, 100_000, 100, 0, 0, true},
		{"policies of this node", 512, 1000, 100_000, 100_000, 0, 0, true},
		{"policies of other nodes and prefixes", 512, 1000, 100_000, 100, 1_000_000, 0, true},
		{"policies of this node and prefixes in use", 512, 1000, 100_000, 100_000, 1_000_000, 100, false},
	}
}

func (l limited) write(tb testing.TB, dir string) {
	tb.Helper()
	n := 0
	add := func(r policy.Resource) {
		data, err := policy.Encode(r)
		require.NoError(tb, err)
		require.NoError(tb, os.WriteFile(filepath.Join(dir, strconv.Itoa(n)+".json"), data, 0o600))
		n++
	}
	for i := range l.endpoints {
		add(endpoint(i, i%roles))
	}
	for set := range l.prefixes / setSize {
		s := &policy.NetworkSet{Name: "s" + strconv.Itoa(set), Labels: map[string]string{"set": strconv.Itoa(set)}}
		for i := range setSize {
			var a [4]byte
			binary.BigEndian.PutUint32(a[:], 0x20000000+uint32(set*setSize+i)<<9) // no two are neighbours
			s.Nets = append(s.Nets, netip.PrefixFrom(netip.AddrFrom4(a), 24))
		}
		add(s)
	}
	for i := range l.policies {
		p := &policy.Policy{Name: "p" + strconv.Itoa(i), Selector: fmt.Sprintf("app == 'a%d'", i%locals)}
		if i >= l.relevant {
			p.Selector = fmt.Sprintf("app == 'elsewhere%d'", i)
		}
		source := fmt.Sprintf("role == 'r%d'", i%roles)
		if l.usedSets > 0 && i < l.relevant {
			source += fmt.Sprintf(" || set == '%d'", i%l.usedSets)
		}
		p.Ingress = []policy.Rule{{
			Action: policy.Allow, Protocol: policy.ProtocolTCP, Source: policy.EntityRule{Selector: source},
			Destination: policy.EntityRule{Ports: []policy.Port{policy.PortNumber(uint16(1 + i%60000))}},
		}}
		add(p)
	}
}

// group is a memory cgroup of the test's own.
type group struct {
	dir string
	v1  bool
}

// newGroup skips the test if it cannot make a memory cgroup.
func newGroup(tb testing.TB, limit int) *group {
	tb.Helper()
	for _, g := range []*group{{dir: "/sys/fs/cgroup/memory", v1: true}, {dir: "/sys/fs/cgroup"}} {
		if _, err := os.Stat(g.file("memory.limit_in_bytes", "cgroup.controllers")); err != nil {
			continue // nothing is mounted there
		}
		dir, err := os.MkdirTemp(g.dir, "wayleave-test-*")
		if err != nil {
			continue
		}
		tb.Cleanup(func() { require.NoError(tb, os.Remove(dir)) })
		g.dir = dir
		if os.WriteFile(g.file("memory.limit_in_bytes", "memory.max"), []byte(strconv.Itoa(limit<<20)), 0) == nil {
			return g
		}
	}
	nstest.Skip(tb, "no memory cgroup can be made here")
	return nil
}

// ordinaryUser reports whether the tests run in the user namespace of an ordinary user, who cannot
// make a cgroup.
func ordinaryUser() bool { return os.Getenv("WAYLEAVE_IN_USER_NAMESPACE") != "" }

func (g *group) file(v1, v2 string) string {
	if g.v1 {
		return filepath.Join(g.dir, v1)
	}
	return filepath.Join(g.dir, v2)
}

func (g *group) read(v1, v2 string) string {
	data, err := os.ReadFile(g.file(v1, v2))
	if err != nil {
		return err.Error()
	}
	return strings.ReplaceAll(strings.TrimSpace(string(data)), "\n", " ")
}

// An agent with too little memory ends with an error before it writes rules or routes; one with
// enough programs everything. The limit is one of the Go runtime and, if root runs the tests, also
// of the cgroup: the kernel must not kill the agent.
func TestAgentBecomesReadyOrEndsWithinItsLimit(t *testing.T) {
	binary := build(t)
	for _, l := range smallCases() {
		t.Run("runtime/"+l.name, func(t *testing.T) {
			l := l
			l.limit /= 2 // the program's file does not count
			run := l.start(t, binary, nil)
			run.check(t, "GOMEMLIMIT")
		})
		if !ordinaryUser() {
			t.Run("cgroup/"+l.name, func(t *testing.T) { l.runInCgroup(t, binary, newGroup(t, l.limit)) })
		}
	}
}

// BenchmarkCgroupLimit measures the agent at the limit of its cgroup. With -full it has large
// cases.
func BenchmarkCgroupLimit(b *testing.B) {
	binary, cases := build(b), smallCases()
	if *full {
		cases = append(cases, largeCases()...)
	}
	for _, l := range cases {
		b.Run(fmt.Sprintf("limit=%dMiB/%s", l.limit, l.name), func(b *testing.B) {
			var took time.Duration
			var peak float64
			for b.Loop() {
				took, peak = l.runInCgroup(b, binary, newGroup(b, l.limit))
			}
			b.ReportMetric(took.Seconds(), "end-s")
			b.ReportMetric(peak/1e6, "peak-MB")
			b.ReportMetric(0, "ns/op") // it includes the making of the node
		})
	}
}

// runInCgroup runs the agent in a cgroup with the limit, and checks how it ends. It returns the
// time until the agent was ready or ended, and the peak of the cgroup in bytes.
func (l limited) runInCgroup(tb testing.TB, binary string, g *group) (took time.Duration, peak float64) {
	tb.Helper()
	run := l.start(tb, binary, g)
	took = time.Since(run.began)
	if l.works {
		tb.Logf("resident %d MB, peak %d MB", run.resident(tb, "VmRSS")/1e6, run.resident(tb, "VmHWM")/1e6)
	}
	most := g.read("memory.max_usage_in_bytes", "memory.peak")
	peak, err := strconv.ParseFloat(most, 64)
	require.NoError(tb, err)
	tb.Logf("%s; cgroup: peak %s, kernel %s bytes", took, most,
		g.read("memory.kmem.max_usage_in_bytes", "memory.stat"))
	require.Regexp(tb, `oom_kill 0$`, g.read("memory.oom_control", "memory.events"))
	run.check(tb, g.dir)
	run.stop()
	return took, peak
}

// limitedRun is an agent that is ready or has ended.
type limitedRun struct {
	limited
	*process
	ns    *netns.NS
	began time.Time
	err   error // how it ended
}

// start runs the agent in a cgroup, or with a limit of the Go runtime, until it is ready or has
// ended.
func (l limited) start(tb testing.TB, binary string, g *group) *limitedRun {
	tb.Helper()
	dir, ns, state := tb.TempDir(), nstest.New(tb), tb.TempDir()
	l.write(tb, dir)
	links(tb, ns, func(i int) string { return "way" + strconv.Itoa(i) })
	socket := filepath.Join(state, "s")
	r := &limitedRun{limited: l, ns: ns, process: &process{client: api.NewClient(socket), said: &bytes.Buffer{}}}
	args := []string{
		binary, "run", "--node", "n", "--resources", dir, "--socket", socket, "--http-address", "",
		"--endpoint-dir", filepath.Join(state, "endpoints"),
	}
	if g == nil {
		r.Cmd = exec.Command(args[0], args[1:]...)
		r.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%dMiB", l.limit))
	} else {
		script := `echo $$ > "$0" && exec "$@"` // the agent is in the group from its first instruction on
		r.Cmd = exec.Command("/bin/sh",
			append([]string{"-c", script, filepath.Join(g.dir, "cgroup.procs")}, args...)...)
	}
	r.Stderr = r.said
	r.began = time.Now()
	require.NoError(tb, ns.Do(r.Start))
	if l.works {
		tb.Cleanup(r.stop)
		r.ready(tb)
		return r
	}
	stuck := time.AfterFunc(waitTimeout, func() { _ = r.Process.Kill() })
	defer stuck.Stop()
	r.err = r.Wait()
	return r
}

// stop ends the agent if it has not ended.
func (r *limitedRun) stop() {
	_ = r.Process.Kill()
	_ = r.Wait()
}

// check fails unless the kernel holds everything, or nothing and the log has the reason.
func (r *limitedRun) check(tb testing.TB, origin string) {
	tb.Helper()
	if r.works {
		requireClasses(tb, r.ns, scale{endpoints: r.endpoints})
		return
	}
	var exit *exec.ExitError
	require.ErrorAs(tb, r.err, &exit, "%s", r.said)
	require.Equal(tb, 1, exit.ExitCode(), "%s", r.said)
	require.Contains(tb, r.said.String(), "more is needed than the limit allows: ")
	require.Contains(tb, r.said.String(), strconv.Itoa(r.limit)+" MiB (")
	require.Contains(tb, r.said.String(), origin)
	for _, args := range [][]string{
		{"/usr/sbin/nft", "list", "tables"},
		{"ip", "route", "show", "table", "all", "proto", strconv.Itoa(routes.DefaultProtocol)},
		{"ip", "neigh", "show", "proto", strconv.Itoa(routes.DefaultProtocol)},
	} {
		out := []byte("unknown")
		require.NoError(tb, r.ns.Do(func() (err error) {
			out, err = exec.Command(args[0], args[1:]...).Output()
			return err
		}))
		require.Empty(tb, string(out), "%s: no rules, routes or neighbour entries are written", args)
	}
}
