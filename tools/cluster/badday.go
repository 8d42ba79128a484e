// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/badday"
	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

const (
	// propagation is how long a change of the API may take to reach all nodes.
	propagation = 10 * time.Second
	// effectDelay is how long after the agents have applied a change its effects may last: the clients
	// read their targets, and the endings of old flows go on.
	effectDelay = 5 * time.Second
	// reportDelay is the time after which all losses of a probe have been reported: the limit of an
	// answer, and two reports.
	reportDelay = 72 * time.Second
	// inFlight is how long before a fault a probe may be sent that the fault still loses.
	inFlight = 2 * time.Second
	// waitLimit limits every wait; the host may be busy.
	waitLimit = 10 * time.Minute
)

// badDays runs days on a cluster.
type badDays struct {
	c        *cluster
	control  *machine.Machine
	outage   time.Duration // of the API server
	silent   int           // pods of the day churn
	interval time.Duration

	mu        sync.Mutex
	tally     *badday.Tally
	starts    map[string]probe.Line // by pod: the last start of its prober
	pods      map[string]*meshPod
	services  map[string][]string        // addresses
	revision  int                        // of the last change of the mesh's pods in the API
	overrides map[[2]string]probe.Expect // by client and server, pods or kinds
	notes     []string
}

// meshPod is a pod of the mesh.
type meshPod struct {
	podKind
	node      string
	addresses []string // empty: not known yet
}

func (p *meshPod) name() string { return p.podKind.name + "-" + p.node }

// day is one of the bad days.
type day struct {
	name, title string
	run         func(b *badDays, ctx context.Context) error // a method
}

func days() []day {
	return []day{
		{"idle", "nothing happens", (*badDays).idle},
		{"node", "a node is killed and comes back", (*badDays).killNode},
		{"upgrade", "the agent is upgraded and restarted on all nodes", (*badDays).upgradeAgents},
		{"apiserver", "the API server is away while containers are killed", (*badDays).stopAPIServer},
		{"etcd", "etcd is restored from a backup", (*badDays).restoreBackup},
		{"churn", "many pods are made and deleted in a minute while policies are edited", (*badDays).churn},
	}
}

func runBadDay(ctx context.Context, c *cluster, args []string) error {
	b := &badDays{c: c}
	flags := flag.NewFlagSet("cluster badday", flag.ContinueOnError)
	short := flags.Bool("short", false, "the API server is away for 1 minute instead of 10")
	flags.IntVar(&b.silent, "pods", 150,
		"`number` of pods of the day churn; nodes take 250 each, but 1000 are too many for two processors")
	flags.DurationVar(&b.interval, "interval", 20*time.Millisecond, "`time` between two probes of a flow that stays")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: cluster badday [FLAGS] [DAY...]\n\n"+
			"Pods on all nodes send allowed and denied probes during each day. The command fails if a denied\n"+
			"probe arrives, or if an allowed one is lost that Kubernetes itself does not lose. It needs 3 nodes or\n"+
			"more. The days, all by default:\n\n")
		for _, d := range days() {
			fmt.Fprintf(flags.Output(), "  %-10s %s\n", d.name, d.title)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	chosen := days()
	if flags.NArg() > 0 {
		chosen = nil
		for _, name := range flags.Args() {
			i := slices.IndexFunc(days(), func(d day) bool { return d.name == name })
			if i < 0 {
				return fmt.Errorf("badday: no day %q; 'cluster badday --help' lists the days", name)
			}
			chosen = append(chosen, days()[i])
		}
	}
	b.outage = 10 * time.Minute
	if *short {
		b.outage = time.Minute
	}
	var err error
	if b.control, err = machine.Open(c.machine(controlName)); err != nil {
		return fmt.Errorf("badday: no cluster runs: %w", err)
	}
	if c.Nodes < 3 {
		return fmt.Errorf("badday: the cluster has %d nodes, and needs 3", c.Nodes)
	}
	if err := b.runDays(ctx, chosen); err != nil {
		return errors.New(err.Error()) // the exit code of a command that failed is not that of this one
	}
	return nil
}

// runDays runs days and prints the table of all that ended.
func (b *badDays) runDays(ctx context.Context, chosen []day) (err error) {
	defer func() {
		// Also after an interrupt.
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitLimit)
		defer cancel()
		if problem := step("Clean up", func() error { return b.cleanUp(cleaning) }); problem != nil {
			err = errors.Join(err, problem)
		}
	}()
	if err := step("Probers", func() error { return b.setUp(ctx) }); err != nil {
		return fmt.Errorf("badday: %w", err)
	}
	stop := b.background(ctx, b.collect, b.watchEndpoints)
	defer stop()
	var rows []badday.Row
	for _, d := range chosen {
		fmt.Printf("== %s: %s\n", d.name, d.title)
		row, err := b.runDay(ctx, d)
		if err != nil {
			badday.WriteTable(os.Stdout, rows)
			return fmt.Errorf("badday %s: %w", d.name, err)
		}
		rows = append(rows, row)
		if err := b.saveDetails(row); err != nil {
			return err
		}
		badday.WriteTable(os.Stdout, []badday.Row{row})
	}
	fmt.Println()
	badday.WriteTable(os.Stdout, rows)
	failed := 0
	for _, row := range rows {
		if row.Failed() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("badday: %d of %d days failed", failed, len(rows))
	}
	return nil
}

func (b *badDays) runDay(ctx context.Context, d day) (badday.Row, error) {
	b.mu.Lock()
	b.tally = &badday.Tally{Day: d.name, Start: time.Now()}
	b.notes = nil
	b.mu.Unlock()
	err := d.run(b, ctx)
	b.tally.End = time.Now()
	if err == nil {
		err = b.pause(ctx, "the last reports", reportDelay)
	}
	if err != nil {
		return badday.Row{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.tally.Judge()
	row.Notes = b.notes
	return row, nil
}

// saveDetails writes all faults of a day to a file.
func (b *badDays) saveDetails(row badday.Row) error {
	if err := os.MkdirAll(b.c.results("badday"), 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	badday.WriteDetails(&text, row)
	return os.WriteFile(b.c.results("badday", row.Day+".log"), text.Bytes(), 0o644)
}

// progress prints what happens.
func (b *badDays) progress(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().UTC().Format("15:04:05.0"), fmt.Sprintf(format, args...))
}

// note prints what the table is to have, too.
func (b *badDays) note(format string, args ...any) {
	b.progress(format, args...)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes = append(b.notes, fmt.Sprintf(format, args...))
}

func (b *badDays) pause(ctx context.Context, why string, d time.Duration) error {
	b.progress("%s: %s", why, d)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// until waits until a condition holds.
func (b *badDays) until(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := condition()
		if ok && err == nil {
			b.progress("%s", what)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// exclusion adds an exclusion to the day. Its services are all that have one of its pods as backend, if
// services is set.
func (b *badDays) exclude(why string, start time.Time, pods []string, services bool) *badday.Exclusion {
	e := &badday.Exclusion{Why: why, Start: start}
	for _, name := range pods {
		e.Pods = append(e.Pods, name)
		kind, _, _ := strings.Cut(name, "-")
		if _, isBackend := b.services[kind]; services && isBackend {
			e.Backends = append(e.Backends, name)
			e.Services = append(e.Services, kind)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tally.Exclude(e)
}

func (b *badDays) end(at time.Time, exclusions ...*badday.Exclusion) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range exclusions {
		e.End = at
	}
}

// background runs functions until the result is called.
func (b *badDays) background(ctx context.Context, functions ...func(context.Context)) func() {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, f := range functions {
		group.Go(func() { f(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// collect reads what the probers print, until ctx is done.
func (b *badDays) collect(ctx context.Context) {
	logs := badday.NewLogs(b.c.logs("node*", "pods", "badday-*", "prober", "*.log"))
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		lines, problems, err := logs.Read()
		if err != nil {
			problems = append(problems, err.Error())
		}
		b.add(lines)
		for _, problem := range problems {
			b.progress("prober: %s", problem)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// watchEndpoints excludes the flows through a service whose backend becomes ready or not ready, until
// ctx is done. kube-proxy then ends the entry of such a flow in connection tracking, also if the
// backend still answers.
func (b *badDays) watchEndpoints(ctx context.Context) {
	known := map[string]map[string]bool{} // by slice and pod: ready
	for ctx.Err() == nil {
		cmd := b.c.kubectlCommand(ctx, "get", "endpointslices", "-A", "-l", proberLabel+"=true",
			"-o", "json", "--watch")
		printed, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err == nil {
			for decoder := json.NewDecoder(printed); ; {
				var slice endpointSlice
				if decoder.Decode(&slice) != nil {
					break
				}
				for _, pod := range endpointsChanged(known, slice) {
					b.excludeBackend(pod)
				}
			}
			_ = cmd.Wait() // it ends with the API server
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// endpointSlice has the fields of an EndpointSlice that are used here.
type endpointSlice struct {
	Metadata  struct{ Name string }
	Endpoints []endpoint
}

type endpoint struct {
	NodeName   string
	TargetRef  struct{ Name string }
	Conditions struct{ Ready bool }
}

// endpointsChanged returns the pods that became ready or not ready since the last call, or are gone.
func endpointsChanged(known map[string]map[string]bool, slice endpointSlice) []string {
	ready := map[string]bool{}
	for _, e := range slice.Endpoints {
		ready[e.TargetRef.Name] = e.Conditions.Ready
	}
	old, seen := known[slice.Metadata.Name]
	known[slice.Metadata.Name] = ready
	if !seen {
		return nil
	}
	var changed []string
	for pod := range ready {
		if old[pod] != ready[pod] {
			changed = append(changed, pod)
		}
	}
	for pod, was := range old {
		if _, stays := ready[pod]; was && !stays {
			changed = append(changed, pod)
		}
	}
	return changed
}

func (b *badDays) excludeBackend(pod string) {
	b.progress("the API has other endpoints of %s", pod)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tally != nil {
		now := time.Now()
		b.tally.Exclude(&badday.Exclusion{
			Why:      "through a service, at most 5 s after its backend became ready or not in the API",
			Backends: []string{pod}, Start: now.Add(-inFlight), End: now.Add(propagation / 2),
		})
	}
}

func (b *badDays) add(lines []probe.Line) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, line := range lines {
		if b.tally != nil {
			b.tally.Add(line)
		}
		if len(line.Addresses) > 0 && line.Time > b.starts[line.Pod].Time {
			b.starts[line.Pod] = line
		}
		for _, leak := range line.Leaks {
			fmt.Printf("LEAK: %s from %s to %s: %d\n", leak.Proto, leak.From, line.Pod, leak.Count)
		}
	}
}

// started reports whether the probers of all pods started after a time.
func (b *badDays) started(pods []string, after time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !slices.ContainsFunc(pods, func(name string) bool { return b.starts[name].Time < after.UnixMilli() })
}

// setUp makes everything that the days need in the cluster, and waits until policy applies.
func (b *badDays) setUp(ctx context.Context) error {
	if err := b.cleanUp(ctx); err != nil { // of an earlier run
		return err
	}
	// The cluster may have been started before the prober was built.
	if _, err := b.c.writeImages(); err != nil {
		return err
	}
	if err := b.c.importImages(ctx, []string{b.c.bin("cluster-images/prober.tar")}); err != nil {
		return err
	}
	b.starts, b.services = map[string]probe.Line{}, map[string][]string{}
	b.pods, b.overrides = map[string]*meshPod{}, map[[2]string]probe.Expect{}
	var objects []object
	objects = append(objects, namespaceObjects()...)
	objects = append(objects, policyObjects(false)...)
	objects = append(objects, serviceObjects()...)
	if err := b.apply(ctx, objects); err != nil {
		return err
	}
	for _, kind := range podKinds() {
		if kind.later {
			continue
		}
		if err := b.makePods(ctx, kind); err != nil {
			return err
		}
	}
	for _, name := range []string{"guarded", "open"} {
		var service struct {
			Spec struct{ ClusterIPs []string }
		}
		if err := b.get(ctx, &service, "-n", namespaceName(name), "service", name); err != nil {
			return err
		}
		b.services[name] = service.Spec.ClusterIPs
	}
	if err := b.waitForPods(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(propagation):
		return nil
	}
}

// makePods makes the pods of a kind and adds them to the mesh, without addresses yet.
func (b *badDays) makePods(ctx context.Context, kind podKind) error {
	var objects []object
	for _, node := range b.c.nodes() {
		if kind.firstNode && node != b.c.nodes()[0] {
			continue
		}
		objects = append(objects, kind.podObject(node, b.interval.String()))
		pod := &meshPod{podKind: kind, node: node}
		b.pods[pod.name()] = pod
	}
	return b.apply(ctx, objects)
}

// waitForPods waits until all pods of the mesh are ready, and makes them targets.
func (b *badDays) waitForPods(ctx context.Context) error {
	err := b.c.kubectl(ctx, "wait", "-A", "-l", proberLabel+"=true", "--for=condition=Ready", "pod", "--timeout=180s")
	if err != nil {
		return err
	}
	_, err = b.readAddresses(ctx)
	return err
}

// readAddresses takes the addresses of the mesh's pods from the API. It reports whether the API has
// those with which the probers started.
func (b *badDays) readAddresses(ctx context.Context) (bool, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name, ResourceVersion string }
			Status   struct{ PodIPs []struct{ IP string } }
		}
	}
	if err := b.get(ctx, &list, "pods", "-A", "-l", proberLabel+"=true"); err != nil {
		return false, err
	}
	equal := true
	b.mu.Lock()
	b.revision = 0
	for _, item := range list.Items {
		pod := b.pods[item.Metadata.Name]
		if pod == nil {
			continue
		}
		var addresses []string
		for _, ip := range item.Status.PodIPs {
			addresses = append(addresses, ip.IP)
		}
		if revision, err := strconv.Atoi(item.Metadata.ResourceVersion); err == nil {
			b.revision = max(b.revision, revision)
		}
		if started, ok := b.starts[item.Metadata.Name]; ok && !sameAddresses(started.Addresses, addresses) {
			equal = false
		}
		pod.addresses = addresses
	}
	b.mu.Unlock()
	return equal, b.writeTargets()
}

func sameAddresses(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(canonical(a))), slices.Sorted(slices.Values(canonical(b))))
}

func canonical(addresses []string) []string {
	var out []string
	for _, text := range addresses {
		if address, err := netip.ParseAddr(text); err == nil {
			out = append(out, address.String())
		}
	}
	return out
}

// targetsOf returns what a client sends to.
func (b *badDays) targetsOf(client *meshPod) probe.Targets {
	var targets probe.Targets
	expect := func(server, kind string) probe.Expect {
		for _, key := range [][2]string{{client.name(), server}, {client.podKind.name, kind}} {
			if override, ok := b.overrides[key]; ok {
				return override
			}
		}
		return client.expect(kind)
	}
	for _, name := range slices.Sorted(maps.Keys(b.pods)) {
		pod := b.pods[name]
		if !pod.server {
			continue
		}
		for _, address := range pod.addresses {
			targets.Targets = append(targets.Targets, probe.Target{
				Name: name, Address: address, Expect: expect(name, pod.podKind.name),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.services)) {
		for _, address := range b.services[name] {
			targets.Targets = append(targets.Targets, probe.Target{
				Name: name, Service: true, Address: address, Expect: expect(name, name),
			})
		}
	}
	return targets
}

// writeTargets writes the files of all clients, in the folders of their nodes: that works without
// the API server.
func (b *badDays) writeTargets() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, pod := range b.pods {
		if pod.server {
			continue
		}
		encoded, err := json.Marshal(b.targetsOf(pod))
		if err != nil {
			return err
		}
		file := filepath.Join(b.folder(pod.node), name+".json")
		if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, encoded) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file+".new", encoded, 0o644); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil {
			return err
		}
	}
	return nil
}

// override changes what policy says about a client and a server, each a pod or a kind.
func (b *badDays) override(client, server string, expect probe.Expect) error {
	b.mu.Lock()
	b.overrides[[2]string{client, server}] = expect
	b.mu.Unlock()
	return b.writeTargets()
}

// folder returns the folder of a node's targets, on the host.
func (b *badDays) folder(node string) string {
	return filepath.Join(b.c.machine(node).Dir, "var-lib", strings.TrimPrefix(targetsFolder, "/var/lib/"))
}

func (b *badDays) podsOn(node string) []string {
	var names []string
	for name, pod := range b.pods {
		if pod.node == node {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// apply creates or changes objects.
func (b *badDays) apply(ctx context.Context, objects []object) error {
	encoded, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err
	}
	cmd := b.c.kubectlCommand(ctx, "apply", "--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = bytes.NewReader(encoded)
	return output(cmd)
}

// get decodes what 'kubectl get' prints.
func (b *badDays) get(ctx context.Context, into any, args ...string) error {
	cmd := b.c.kubectlCommand(ctx, append([]string{"get", "-o", "json"}, args...)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("kubectl get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return json.Unmarshal(printed, into)
}

// cleanUp removes everything that the bad days make in the cluster.
func (b *badDays) cleanUp(ctx context.Context) error {
	// A day that ended early may have started the API server just now.
	if err := b.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	err := b.c.kubectl(ctx, "delete", "--ignore-not-found", "clusternetworkpolicies", "-l", proberLabel+"=true")
	err = errors.Join(err, b.c.kubectl(ctx, "delete", "--ignore-not-found", "namespaces", "-l", proberLabel+"=true",
		"--timeout=480s"))
	for _, node := range b.c.nodes() {
		err = errors.Join(err, os.RemoveAll(b.folder(node)))
		// A later run must not read the lines of this one.
		logs, globErr := filepath.Glob(b.c.logs(node, "pods", "badday-*"))
		err = errors.Join(err, globErr)
		for _, folder := range logs {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}
