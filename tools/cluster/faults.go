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

	"github.com/wayleave/wayleave/tools/cluster/internal/losses"
	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

const (
	// propagation is how long a change of the API may take to reach all nodes.
	propagation = 10 * time.Second
	// effectDelay is the time from applied policy to stable results: clients read their targets,
	// and old flows are still ended.
	effectDelay = 5 * time.Second
	// reportDelay is the time after which the loss of a probe has been reported: AnswerLimit and
	// the interval of two reports.
	reportDelay = probe.AnswerLimit + 12*time.Second
	// inFlight is how long before a fault a sent probe can still be lost.
	inFlight = 2 * time.Second
	// waitLimit is the limit of every wait. It is long, because the host may be busy.
	waitLimit = 10 * time.Minute
)

// faultRun runs scenarios on a cluster.
type faultRun struct {
	c        *cluster
	control  *machine.Machine
	outage   time.Duration // of the API server
	loadPods int           // of the scenario churn
	interval time.Duration

	mu       sync.Mutex
	tally    *losses.Tally
	starts   map[string]probe.Line // by pod: the last start of its prober
	pods     map[string]*proberPod
	services map[string][]string  // addresses
	ready    map[string]time.Time // by pod: when it became a ready endpoint
	// resourceVersion is the highest one of the prober pods in the API.
	resourceVersion int
	overrides       map[[2]string]probe.Verdict // by client and server, pods or kinds
	notes           []string
}

// proberPod is a pod that runs a prober.
type proberPod struct {
	podKind
	node      string
	addresses []string // empty: not known yet
}

func (p *proberPod) name() string { return p.podKind.name + "-" + p.node }

// scenario is a fault that a run injects while probes are sent.
type scenario struct {
	name, title string
	run         func(r *faultRun, ctx context.Context) error // a method
}

func scenarios() []scenario {
	return []scenario{
		{"idle", "nothing happens", (*faultRun).idle},
		{"node", "a node is killed and started again", (*faultRun).killNode},
		{"upgrade", "the agent is upgraded and restarted on all nodes", (*faultRun).upgradeAgents},
		{
			"apiserver", "all of the control plane but etcd is stopped while containers are killed",
			(*faultRun).stopAPIServer,
		},
		{"etcd", "etcd is restored from a backup", (*faultRun).restoreBackup},
		{"churn", "many pods are made and deleted in a minute while policies are edited", (*faultRun).churn},
		{
			"turnover", "1,000 pods, some dozen at a time, are made and deleted while policies are edited",
			(*faultRun).turnover,
		},
	}
}

func runFaults(ctx context.Context, c *cluster, args []string) error {
	r := &faultRun{c: c}
	flags := flag.NewFlagSet("cluster faults", flag.ContinueOnError)
	short := flags.Bool("short", false, "stop the API server for 1 minute instead of 10")
	flags.IntVar(&r.loadPods, "pods", 150,
		"`number` of pods of the scenario churn; nodes take 250 each, but 1000 are too many for two cores")
	flags.DurationVar(&r.interval, "interval", 20*time.Millisecond,
		"`time` between two probes of a long-lived UDP flow")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "usage: cluster faults [FLAGS] [SCENARIO...]\n\n"+
			"Pods on all nodes send allowed and denied probes during each scenario. The command fails if a denied\n"+
			"probe arrives or is answered (a leak), or if an allowed one is lost that Kubernetes itself does not\n"+
			"lose. While policies or a client's address change, some probes may arrive or not. It needs 3 nodes or\n"+
			"more. The scenarios, all by default:\n\n")
		for _, s := range scenarios() {
			fmt.Fprintf(flags.Output(), "  %-10s %s\n", s.name, s.title)
		}
		fmt.Fprintln(flags.Output())
		flags.PrintDefaults()
	}
	names, err := parse(flags, args)
	if err != nil {
		return err
	}
	chosen := scenarios()
	if len(names) > 0 {
		chosen = nil
		for _, name := range names {
			i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.name == name })
			if i < 0 {
				return fmt.Errorf("faults: no scenario %q; 'cluster faults --help' lists the scenarios", name)
			}
			chosen = append(chosen, scenarios()[i])
		}
	}
	r.outage = 10 * time.Minute
	if *short {
		r.outage = time.Minute
	}
	if r.control, err = machine.Open(c.machine(controlName)); err != nil {
		return fmt.Errorf("faults: no cluster runs: %w", err)
	}
	if c.Nodes < 3 {
		return fmt.Errorf("faults: the cluster has %d nodes, and needs 3", c.Nodes)
	}
	if err := r.runScenarios(ctx, chosen); err != nil {
		return errors.New(err.Error()) // the exit code of a command that failed is not that of this one
	}
	return nil
}

// runScenarios runs the chosen scenarios and prints the results of the finished ones.
func (r *faultRun) runScenarios(ctx context.Context, chosen []scenario) (err error) {
	defer func() {
		// Also after an interrupt.
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), waitLimit)
		defer cancel()
		if problem := step("Clean up", func() error { return r.cleanUp(cleaning) }); problem != nil {
			err = errors.Join(err, problem)
		}
	}()
	if err := step("Probers", func() error { return r.setUp(ctx) }); err != nil {
		return fmt.Errorf("faults: %w", err)
	}
	stop := r.background(ctx, r.collect, r.watchEndpoints)
	defer stop()
	var rows []losses.Row
	for _, s := range chosen {
		fmt.Printf("== %s: %s\n", s.name, s.title)
		row, err := r.runScenario(ctx, s)
		if err != nil {
			losses.WriteTable(os.Stdout, rows)
			return fmt.Errorf("faults %s: %w", s.name, err)
		}
		rows = append(rows, row)
		if err := r.saveDetails(row); err != nil {
			return err
		}
		losses.WriteTable(os.Stdout, []losses.Row{row})
	}
	fmt.Println()
	losses.WriteTable(os.Stdout, rows)
	failed := 0
	for _, row := range rows {
		if row.Failed() {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("faults: %d of %d scenarios failed", failed, len(rows))
	}
	return nil
}

func (r *faultRun) runScenario(ctx context.Context, s scenario) (losses.Row, error) {
	r.mu.Lock()
	r.tally = &losses.Tally{Scenario: s.name, Start: time.Now()}
	r.notes = nil
	r.mu.Unlock()
	err := s.run(r, ctx)
	r.tally.End = time.Now()
	if err == nil {
		err = r.pause(ctx, "the last reports of the probers", reportDelay)
	}
	if err != nil {
		return losses.Row{}, err
	}
	return r.result(), nil
}

// result returns the result of the scenario. The lines of every prober must have been read.
func (r *faultRun) result() losses.Row {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		if !r.pods[name].server {
			r.tally.RequireReports(name, false)
		} else if _, ok := r.starts[name]; !ok { // a server reports only its start and leaks
			r.tally.Invalidate("the log of %s was never read", name)
		}
	}
	row := r.tally.Result()
	row.Notes = r.notes
	return row
}

// removePod removes a client, whose pod is deleted on purpose, from the prober pods.
func (r *faultRun) removePod(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.pods, name)
	r.tally.RequireReports(name, true)
}

// saveDetails writes all leaks and unexplained losses of a scenario to a file.
func (r *faultRun) saveDetails(row losses.Row) error {
	if err := os.MkdirAll(r.c.results("faults"), 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	losses.WriteDetails(&text, row)
	return os.WriteFile(r.c.results("faults", row.Scenario+".log"), text.Bytes(), 0o644)
}

// progress prints a message with the time.
func (r *faultRun) progress(format string, args ...any) {
	fmt.Printf("%s  %s\n", time.Now().UTC().Format("15:04:05.0"), fmt.Sprintf(format, args...))
}

// note prints a message and adds it to the notes.
func (r *faultRun) note(format string, args ...any) {
	r.progress(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *faultRun) pause(ctx context.Context, why string, d time.Duration) error {
	r.progress("wait %s: %s", d, why)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// until waits until a condition holds.
func (r *faultRun) until(ctx context.Context, what string, condition func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := condition()
		if ok && err == nil {
			r.progress("%s", what)
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), err)
		case <-tick.C:
		}
	}
}

// background runs functions until the stop function that it returns is called.
func (r *faultRun) background(ctx context.Context, functions ...func(context.Context)) func() {
	ctx, cancel := context.WithCancel(ctx)
	var group sync.WaitGroup
	for _, f := range functions {
		group.Go(func() { f(ctx) })
	}
	return func() { cancel(); group.Wait() }
}

// collect reads the lines of the probers, until ctx is done.
func (r *faultRun) collect(ctx context.Context) {
	logs := losses.NewLogs(r.c.logs("node*", "pods", "faults-*", "prober", "*.log"))
	defer logs.Close()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		lines, problems, err := logs.Read()
		if err != nil {
			problems = append(problems, err.Error())
		}
		r.add(lines)
		for _, problem := range problems {
			r.progress("prober: %s", problem)
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

func (r *faultRun) add(lines []probe.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range lines {
		if r.tally != nil {
			r.tally.Add(line)
		}
		if len(line.Addresses) > 0 && line.Time > r.starts[line.Pod].Time {
			r.starts[line.Pod] = line
		}
		for _, leak := range line.Leaks {
			fmt.Printf("LEAK: %s from %s to %s: %d\n", leak.Proto, leak.From, line.Pod, leak.Count)
		}
	}
}

// started reports whether the probers of all pods started after a time.
func (r *faultRun) started(pods []string, after time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !slices.ContainsFunc(pods, func(name string) bool { return r.starts[name].Time < after.UnixMilli() })
}

// setUp makes everything that the scenarios need in the cluster, and waits until policy applies.
func (r *faultRun) setUp(ctx context.Context) error {
	if err := r.cleanUp(ctx); err != nil { // of an earlier run
		return err
	}
	// The cluster may have been started before the prober was built.
	if _, err := r.c.writeImages(); err != nil {
		return err
	}
	if err := r.c.importImages(ctx, []string{r.c.bin("cluster-images/prober.tar")}); err != nil {
		return err
	}
	r.ready = map[string]time.Time{}
	r.starts, r.services = map[string]probe.Line{}, map[string][]string{}
	r.pods, r.overrides = map[string]*proberPod{}, map[[2]string]probe.Verdict{}
	var objects []object
	objects = append(objects, namespaceObjects()...)
	objects = append(objects, policyObjects(false)...)
	objects = append(objects, serviceObjects()...)
	if err := r.apply(ctx, objects); err != nil {
		return err
	}
	for _, kind := range podKinds() {
		if kind.later {
			continue
		}
		if err := r.makePods(ctx, kind); err != nil {
			return err
		}
	}
	for _, name := range []string{"guarded", "open"} {
		var service struct {
			Spec struct{ ClusterIPs []string }
		}
		if err := r.get(ctx, &service, "-n", namespaceName(name), "service", name); err != nil {
			return err
		}
		r.services[name] = service.Spec.ClusterIPs
	}
	if err := r.waitForPods(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(propagation):
		return nil
	}
}

// makePods makes the prober pods of a kind, without addresses yet.
func (r *faultRun) makePods(ctx context.Context, kind podKind) error {
	var objects []object
	for _, node := range r.c.nodes() {
		if kind.firstNode && node != r.c.nodes()[0] {
			continue
		}
		objects = append(objects, kind.podObject(node, r.interval.String()))
		pod := &proberPod{podKind: kind, node: node}
		r.pods[pod.name()] = pod
	}
	return r.apply(ctx, objects)
}

// waitForPods waits until all prober pods are ready, and makes them targets.
func (r *faultRun) waitForPods(ctx context.Context) error {
	err := r.c.kubectl(ctx, "wait", "-A", "-l", proberLabel+"=true", "--for=condition=Ready", "pod", "--timeout=180s")
	if err != nil {
		return err
	}
	if _, err := r.readAddresses(ctx); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, pod := range r.pods {
		if len(pod.addresses) != 2 {
			return fmt.Errorf("pod %s has the addresses %q, not one of each family", name, pod.addresses)
		}
	}
	return nil
}

// readAddresses takes the addresses of the prober pods from the API. It reports whether the API has
// those with which the probers started.
func (r *faultRun) readAddresses(ctx context.Context) (bool, error) {
	var list struct {
		Items []struct {
			Metadata struct{ Name, ResourceVersion string }
			Status   struct{ PodIPs []struct{ IP string } }
		}
	}
	if err := r.get(ctx, &list, "pods", "-A", "-l", proberLabel+"=true"); err != nil {
		return false, err
	}
	equal := true
	r.mu.Lock()
	r.resourceVersion = 0
	for _, item := range list.Items {
		pod := r.pods[item.Metadata.Name]
		if pod == nil {
			continue
		}
		var addresses []string
		for _, ip := range item.Status.PodIPs {
			addresses = append(addresses, ip.IP)
		}
		if version, err := strconv.Atoi(item.Metadata.ResourceVersion); err == nil {
			r.resourceVersion = max(r.resourceVersion, version)
		}
		if started, ok := r.starts[item.Metadata.Name]; ok && !sameAddresses(started.Addresses, addresses) {
			equal = false
		}
		pod.addresses = addresses
	}
	r.mu.Unlock()
	return equal, r.writeTargets()
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

// targetsOf returns the targets of a client.
func (r *faultRun) targetsOf(client *proberPod) probe.Targets {
	var targets probe.Targets
	expect := func(server, kind string) probe.Verdict {
		for _, key := range [][2]string{{client.name(), server}, {client.podKind.name, kind}} {
			if override, ok := r.overrides[key]; ok {
				return override
			}
		}
		return client.expect(kind)
	}
	for _, name := range slices.Sorted(maps.Keys(r.pods)) {
		pod := r.pods[name]
		if !pod.server {
			continue
		}
		for _, address := range pod.addresses {
			targets.Targets = append(targets.Targets, probe.Target{
				Name: name, Address: address, Expect: expect(name, pod.podKind.name),
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.services)) {
		for _, address := range r.services[name] {
			targets.Targets = append(targets.Targets, probe.Target{
				Name: name, Service: true, Address: address, Expect: expect(name, name),
			})
		}
	}
	return targets
}

// writeTargets writes the files of all clients, in the folders of their nodes: that works without
// the API server.
func (r *faultRun) writeTargets() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, pod := range r.pods {
		if pod.server {
			continue
		}
		encoded, err := json.Marshal(r.targetsOf(pod))
		if err != nil {
			return err
		}
		file := filepath.Join(r.folder(pod.node), name+".json")
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

// override changes the expected verdict for a client and a server, each a pod or a kind.
func (r *faultRun) override(client, server string, expect probe.Verdict) error {
	r.mu.Lock()
	r.overrides[[2]string{client, server}] = expect
	r.mu.Unlock()
	return r.writeTargets()
}

// clearOverrides sets all expected verdicts back to those before override.
func (r *faultRun) clearOverrides() error {
	r.mu.Lock()
	clear(r.overrides)
	r.mu.Unlock()
	return r.writeTargets()
}

// folder returns the folder of a node's targets, on the host.
func (r *faultRun) folder(node string) string {
	return filepath.Join(r.c.machine(node).Dir, "var-lib", strings.TrimPrefix(targetsFolder, "/var/lib/"))
}

func (r *faultRun) podsOn(node string) []string {
	var names []string
	for name, pod := range r.pods {
		if pod.node == node {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// apply creates or changes objects.
func (r *faultRun) apply(ctx context.Context, objects []object) error {
	encoded, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		return err
	}
	cmd := r.c.kubectlCommand(ctx, "apply", "--server-side", "--force-conflicts", "-f", "-")
	cmd.Stdin = bytes.NewReader(encoded)
	return output(cmd)
}

// get decodes the output of 'kubectl get'.
func (r *faultRun) get(ctx context.Context, into any, args ...string) error {
	cmd := r.c.kubectlCommand(ctx, append([]string{"get", "-o", "json"}, args...)...)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("kubectl get %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(problem.String()))
	}
	return json.Unmarshal(printed, into)
}

// cleanUp removes everything that the scenarios make in the cluster.
func (r *faultRun) cleanUp(ctx context.Context) error {
	// A scenario that was aborted may have started the API server just now.
	if err := r.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	err := r.c.kubectl(ctx, "delete", "--ignore-not-found", "clusternetworkpolicies", "-l", proberLabel+"=true")
	err = errors.Join(err, r.c.kubectl(ctx, "delete", "--ignore-not-found", "namespaces", "-l", proberLabel+"=true",
		"--timeout=480s"))
	for _, node := range r.c.nodes() {
		err = errors.Join(err, os.RemoveAll(r.folder(node)))
		// A later run must not read the lines of this one.
		logs, globErr := filepath.Glob(r.c.logs(node, "pods", "faults-*"))
		err = errors.Join(err, globErr)
		for _, folder := range logs {
			err = errors.Join(err, os.RemoveAll(folder))
		}
	}
	return err
}
