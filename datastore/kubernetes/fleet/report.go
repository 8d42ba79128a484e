// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// results are the results of a run.
type results struct {
	Config   config
	Runs     []*measurement
	Sizes    []size
	Verified int
}

// group is the runs of one scenario on one backend.
type group []*measurement

// groups returns the runs by backend and scenario, in their order.
func (r *results) groups() (list []group) {
	for _, m := range r.Runs {
		last := len(list) - 1
		if last < 0 || list[last][0].Backend != m.Backend || list[last][0].Scenario != m.Scenario {
			list = append(list, nil)
			last++
		}
		list[last] = append(list[last], m)
	}
	return list
}

// total returns the counts of all nodes, and the number of changes: at least one a run.
func (g group) total() (c Counts, changes int) {
	for _, m := range g {
		for _, n := range m.Nodes {
			c = c.add(n)
		}
		changes += max(1, m.Changes)
	}
	return c, changes
}

func (g group) used(name string) (cpu time.Duration, rss, peak int64) {
	for _, m := range g {
		u := m.Used[name]
		cpu, rss, peak = cpu+u.CPU, max(rss, u.RSS), max(peak, u.Peak)
	}
	return cpu, rss, peak
}

func (g group) latencies() (first, all []time.Duration, took time.Duration) {
	for _, m := range g {
		first, all, took = append(first, m.First...), append(all, m.Latencies...), took+m.Took
	}
	slices.Sort(first)
	slices.Sort(all)
	return first, all, took
}

// String returns a line about one run.
func (m *measurement) String() string {
	first, all, took := group{m}.latencies()
	c, _ := group{m}.total()
	text := fmt.Sprintf("%s took %s: %.0f events, %s a node", m.Scenario, round(took),
		float64(c.Events)/float64(len(m.Nodes)), bytesOf(c.Received/int64(len(m.Nodes))))
	if len(all) > 0 {
		text += fmt.Sprintf("; first %s, p50 %s, last %s", round(first[0]), round(at(all, 50)), round(all[len(all)-1]))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Used)) {
		u := m.Used[name]
		text += fmt.Sprintf("; %s %.2f s, %s (peak %s)", name, u.CPU.Seconds(), bytesOf(u.RSS), bytesOf(u.Peak))
	}
	for _, note := range m.Notes {
		text += "; " + note
	}
	return text
}

// at returns a percentile of a sorted list.
func at(sorted []time.Duration, percent int) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func (r *results) print(out io.Writer) {
	c := r.Config
	fmt.Fprintf(out, "\n%s; %d nodes, %d pods, %d policies, %d worker processes; %s\n",
		time.Now().Format("2 January 2006"), c.Nodes, c.Nodes*c.PodsPerNode, c.Policies+1, c.Processes, machine())
	fmt.Fprintf(out, "%s\n", strings.Join(versions(), "; "))
	if len(c.Omit) > 0 {
		fmt.Fprintf(out, "Not read: %s.\n", strings.Join(c.Omit, ", "))
	}
	fmt.Fprintf(out, "%d states of nodes equal those of a fresh graph.\n", r.Verified)
	r.printTraffic(out)
	r.printLatencies(out)
	r.printCosts(out)
	r.printKinds(out)
	if len(r.Sizes) > 0 {
		fmt.Fprint(out, "\n| object | form | bytes |\n|---|---|---|\n")
		for _, s := range r.Sizes {
			fmt.Fprintf(out, "| %s | %s | %d |\n", s.What, s.Form, s.Bytes)
		}
	}
}

func (r *results) printTraffic(out io.Writer) {
	fmt.Fprint(out, "\n| backend | scenario | changes | events, a node and change | bytes of events | "+
		"received, a node and change | sent | received by all nodes, a change | requests of all nodes |\n")
	fmt.Fprint(out, "|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		c, changes := g.total()
		nodes := int64(len(g[0].Nodes))
		each := nodes * int64(changes)
		fmt.Fprintf(out, "| %s | %s | %d | %.2f | %s | %s | %s | %s | %d |\n", g[0].Backend, g[0].Scenario, changes,
			float64(c.Events)/float64(each), bytesOf(c.EventBytes/each), bytesOf(c.Received/each),
			bytesOf(c.Sent/each), bytesOf(c.Received/int64(changes)), c.Requests)
	}
}

func (r *results) printLatencies(out io.Writer) {
	fmt.Fprint(out, "\n| backend | scenario | samples | first node, p50 / max | nodes, p50 / p99 / max | notes |\n")
	fmt.Fprint(out, "|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		first, all, _ := g.latencies()
		var notes []string
		for _, m := range g {
			notes = append(notes, m.Notes...)
		}
		if len(all) == 0 && len(notes) == 0 {
			continue
		}
		fmt.Fprintf(out, "| %s | %s | %d | %s / %s | %s / %s / %s | %s |\n", g[0].Backend, g[0].Scenario, len(all),
			short(at(first, 50)), short(at(first, 100)), short(at(all, 50)), short(at(all, 99)), short(at(all, 100)),
			strings.Join(notes, "; "))
	}
}

func (r *results) printCosts(out io.Writer) {
	fmt.Fprint(out, "\n| backend | scenario | took | process | CPU | CPU, a change | CPU, a node and change | memory "+
		"| peak |\n")
	fmt.Fprint(out, "|---|---|---|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		_, changes := g.total()
		_, _, took := g.latencies()
		for _, name := range slices.Sorted(maps.Keys(g[0].Used)) {
			cpu, rss, peak := g.used(name)
			memory, most := bytesOf(rss), bytesOf(peak)
			if name == nodesName {
				memory += ", " + bytesOf(rss/int64(r.Config.Nodes)) + " a node"
				most += ", " + bytesOf(peak/int64(r.Config.Nodes)) + " a node"
			}
			fmt.Fprintf(out, "| %s | %s | %s | %s | %.2f s | %s | %s | %s | %s |\n", g[0].Backend, g[0].Scenario,
				short(took), name, cpu.Seconds(), short(cpu/time.Duration(changes)),
				short(cpu/time.Duration(changes*r.Config.Nodes)), memory, most)
		}
	}
}

// printKinds prints the counts of each kind that the nodes received while they started and while
// nothing happened.
func (r *results) printKinds(out io.Writer) {
	fmt.Fprint(out, "\n| backend | scenario | kind | requests, a node | events, a node | bytes, a node |\n")
	fmt.Fprint(out, "|---|---|---|---|---|---|\n")
	for _, g := range r.groups() {
		kinds := g[0].Kinds
		names := slices.SortedFunc(maps.Keys(kinds), func(a, b string) int {
			return cmp.Or(cmp.Compare(kinds[b].Received, kinds[a].Received), cmp.Compare(a, b))
		})
		if !slices.Contains([]string{"start", "idle", "reconnect", "restart"}, g[0].Scenario) {
			continue
		}
		for _, name := range names {
			if c, n := kinds[name], float64(r.Config.Nodes); c.Requests+c.Received > 0 {
				fmt.Fprintf(out, "| %s | %s | %s | %.2f | %.1f | %s |\n", g[0].Backend, g[0].Scenario, name,
					float64(c.Requests)/n, float64(c.Events)/n, bytesOf(int64(float64(c.Received)/n)))
			}
		}
	}
}

// bytesOf returns a number of bytes with three digits or fewer.
func bytesOf(n int64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if v := float64(n) / u.size; v >= 1 {
			if v < 10 {
				return fmt.Sprintf("%.2f %s", v, u.name)
			}
			return fmt.Sprintf("%.0f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// short returns a duration with three digits or fewer.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.0f ms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

// machine describes the machine of the run.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores, Linux %s, %s", runtime.NumCPU(), strings.TrimSpace(string(kernel)), runtime.Version())
}

// versions returns the versions of the servers.
func versions() (list []string) {
	folder := os.Getenv("WAYLEAVE_KUBERNETES_BIN")
	for _, program := range []string{"kube-apiserver", "etcd"} {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		text, err := exec.CommandContext(ctx, filepath.Join(folder, program), "--version").Output()
		cancel()
		if line, _, _ := strings.Cut(string(text), "\n"); err == nil {
			list = append(list, line)
		}
	}
	return list
}
