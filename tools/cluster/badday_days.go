// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/badday"
	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

const whyDeleted = "of a pod that was deleted, or that comes back from the backup"

func (b *badDays) idle(ctx context.Context) error {
	return b.pause(ctx, "nothing happens", 30*time.Second)
}

// killNode kills the second node, waits until Kubernetes has noticed, and starts it again.
func (b *badDays) killNode(ctx context.Context) error {
	const index = 1
	name := b.c.nodes()[index]
	node, err := machine.Open(b.c.machine(name))
	if err != nil {
		return err
	}
	if err := b.pause(ctx, "before the fault", 10*time.Second); err != nil {
		return err
	}
	pods := b.podsOn(name)
	killed := time.Now()
	b.progress("%s is killed", name)
	if err := node.Kill(); err != nil {
		return err
	}
	defer b.ensureNode(ctx, index)
	dead := b.exclude("from or directly to pods of the dead node, until 5 s after all agents have their new addresses",
		killed.Add(-inFlight), pods, false)
	endpoints := b.exclude("through a service, until 10 s after the API has no ready endpoint on the dead node",
		killed.Add(-inFlight), pods, true)
	err = b.until(ctx, "the services have no ready endpoint on "+name, func() (bool, error) {
		n, err := b.readyEndpoints(ctx, name)
		return n == 0, err
	})
	if err != nil {
		return err
	}
	b.note("the endpoints on the dead node went after %.0f s", time.Since(killed).Seconds())
	b.end(time.Now().Add(propagation), endpoints)
	if err := b.pause(ctx, "only the other nodes", 20*time.Second); err != nil {
		return err
	}

	b.progress("%s starts", name)
	started := time.Now()
	back := b.exclude("through a service, while the pods of the returned node are new to other nodes",
		started, pods, true)
	if err := b.c.startNode(ctx, index); err != nil {
		return err
	}
	if err := b.podsAreBack(ctx, pods, started); err != nil {
		return err
	}
	b.note("its pods were back in the API after %.0f s", time.Since(started).Seconds())
	b.end(time.Now().Add(effectDelay), dead, back)
	if err := b.c.kubectl(ctx, "wait", "--for=condition=Ready", "node/"+name, "--timeout=120s"); err != nil {
		return err
	}
	return b.pause(ctx, "all nodes", propagation+20*time.Second)
}

// ensureNode starts a node again if a day ended early.
func (b *badDays) ensureNode(ctx context.Context, index int) {
	if _, err := machine.Open(b.c.machine(b.c.nodes()[index])); err == nil {
		return
	}
	if err := b.c.startNode(context.WithoutCancel(ctx), index); err != nil {
		b.progress("start %s: %v", b.c.nodes()[index], err)
	}
}

// agentsApplied waits until the agents of all nodes read the API, have the pods of the mesh as it has
// them, and have programmed them. After a long outage, they try to read it every 15 to 23 s.
func (b *badDays) agentsApplied(ctx context.Context) error {
	return b.until(ctx, "all agents have applied the state of the API", func() (bool, error) {
		applied := make([]bool, b.c.Nodes)
		err := b.c.eachNode(func(i int, name string) error {
			m, err := machine.Open(b.c.machine(name))
			if err != nil {
				return err
			}
			printed, err := m.Command(ctx, b.c.bin("agent"), "status", "-o", "json").Output()
			if err == nil {
				applied[i], err = hasApplied(printed, b.revision)
			}
			return err
		})
		return !slices.Contains(applied, false), err
	})
}

// hasApplied reports whether an agent with this status can read all kinds, has read pods up to a
// revision, and has nothing to program.
func hasApplied(status []byte, revision int) (bool, error) {
	var decoded struct {
		Pending    bool
		Kubernetes struct {
			InSync bool
			Kinds  []struct{ Kind, Error, Revision string }
		}
	}
	if err := json.Unmarshal(status, &decoded); err != nil {
		return false, fmt.Errorf("status of the agent: %w", err)
	}
	if !decoded.Kubernetes.InSync || decoded.Pending {
		return false, nil
	}
	found := false
	for _, kind := range decoded.Kubernetes.Kinds {
		if kind.Error != "" {
			return false, nil
		}
		if kind.Kind == "pods" {
			read, err := strconv.Atoi(kind.Revision)
			if err != nil {
				return false, fmt.Errorf("revision of pods: %w", err)
			}
			found = read >= revision
		}
	}
	return found, nil
}

// podsAreBack waits until probers have started again, the API has their addresses, and the agents have
// applied them.
func (b *badDays) podsAreBack(ctx context.Context, pods []string, after time.Time) error {
	err := b.until(ctx, fmt.Sprintf("%d probers have started", len(pods)), func() (bool, error) {
		return b.started(pods, after), nil
	})
	if err != nil {
		return err
	}
	err = b.until(ctx, "the API has their addresses", func() (bool, error) { return b.readAddresses(ctx) })
	if err != nil {
		return err
	}
	known := time.Now()
	if err := b.agentsApplied(ctx); err != nil {
		return err
	}
	b.note("all agents had applied the new addresses %.0f s after the API had them", time.Since(known).Seconds())
	return nil
}

// readyEndpoints returns how many ready endpoints the services have on a node.
func (b *badDays) readyEndpoints(ctx context.Context, node string) (int, error) {
	var list struct{ Items []endpointSlice }
	total := 0
	for name := range b.services {
		if err := b.get(ctx, &list, "endpointslices", "-n", namespaceName(name)); err != nil {
			return 0, err
		}
		for _, slice := range list.Items {
			for _, endpoint := range slice.Endpoints {
				if endpoint.NodeName == node && endpoint.Conditions.Ready {
					total++
				}
			}
		}
	}
	return total, nil
}

// upgradeAgents rolls the DaemonSet to another tag, restarts it, and rolls it back.
func (b *badDays) upgradeAgents(ctx context.Context) error {
	other := strings.TrimSuffix(agentImage, ":dev") + ":next"
	err := b.c.eachNode(func(_ int, name string) error {
		return b.ctr(ctx, name, "images", "tag", "--force", agentImage, other)
	})
	if err != nil {
		return err
	}
	set := func(ctx context.Context, image string) error {
		return b.c.kubectl(ctx, "-n", "wayleave", "set", "image", "daemonset/wayleave-agent",
			"install-cni="+image, "agent="+image)
	}
	defer func() {
		_ = set(context.WithoutCancel(ctx), agentImage) // if the day ended early
		_ = b.c.eachNode(func(_ int, name string) error {
			return b.ctr(context.WithoutCancel(ctx), name, "images", "rm", other)
		})
	}()
	if err := b.pause(ctx, "before the upgrade", 5*time.Second); err != nil {
		return err
	}
	for _, change := range []struct {
		name string
		run  func() error
	}{
		{"upgraded", func() error { return set(ctx, other) }},
		{"restarted", func() error {
			return b.c.kubectl(ctx, "-n", "wayleave", "rollout", "restart", "daemonset/wayleave-agent")
		}},
		{"set back", func() error { return set(ctx, agentImage) }},
	} {
		start := time.Now()
		if err := change.run(); err != nil {
			return err
		}
		err := b.c.kubectl(ctx, "-n", "wayleave", "rollout", "status", "daemonset/wayleave-agent", "--timeout=300s")
		if err != nil {
			return err
		}
		b.note("all agents were %s after %.0f s", change.name, time.Since(start).Seconds())
		if err := b.pause(ctx, "traffic", 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// stopAPIServer stops the API server. Meanwhile containers and sandboxes are killed on the nodes,
// and kubelet makes them again. Pods that were made just before are deleted just after.
func (b *badDays) stopAPIServer(ctx context.Context) error {
	if err := b.pause(ctx, "before the fault", 5*time.Second); err != nil {
		return err
	}
	nodes := b.c.nodes()
	if err := b.apply(ctx, silentPods("before", 30, nodes)); err != nil {
		return err
	}
	away := time.Now()
	// With several control planes, these two would end, too, when they cannot renew their leases.
	if err := b.runControl(ctx, apiServerName, "kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	defer b.runControl(context.WithoutCancel(ctx))
	b.progress("the API server is away")

	// A sandbox gets other addresses, which no other node can know without the API server.
	faults := []struct {
		pod     string
		sandbox bool
	}{
		{"guarded-" + nodes[1], false},
		{"friend-" + nodes[2], true},
		{"stranger-" + nodes[0], false},
		{"partner-" + nodes[1], true},
		{"open-" + nodes[2], false},
		{"stranger-" + nodes[1], true},
		{"friend-" + nodes[0], false},
		{"banned-" + nodes[2], true},
		{"guarded-" + nodes[0], false},
	}
	var moved []string
	var unknown []*badday.Exclusion
	containers := 0
	pause := max(b.outage/time.Duration(len(faults)+1), 5*time.Second)
	for _, fault := range faults {
		if time.Since(away) > b.outage-pause {
			break
		}
		if err := b.pause(ctx, "without the API server", pause); err != nil {
			return err
		}
		if !fault.sandbox {
			if err := b.restartContainer(ctx, fault.pod); err != nil {
				return err
			}
			containers++
			continue
		}
		exclusion, err := b.replaceSandbox(ctx, fault.pod)
		if err != nil {
			return err
		}
		moved, unknown = append(moved, fault.pod), append(unknown, exclusion)
	}
	if rest := b.outage - time.Since(away); rest > 0 {
		if err := b.pause(ctx, "without the API server", rest); err != nil {
			return err
		}
	}
	replaced := 0
	for _, pod := range moved {
		if b.started([]string{pod}, away) {
			replaced++
		}
	}
	b.note("the API server was away for %.0f s; kubelet restarted %d containers, and replaced %d of %d sandboxes",
		time.Since(away).Seconds(), containers, replaced, len(moved))
	if err := b.runControl(ctx); err != nil {
		return err
	}
	if err := b.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	back := time.Now()
	b.progress("the API server is back")
	if err := b.deleteSilentPods(ctx); err != nil {
		return err
	}
	if err := b.podsAreBack(ctx, moved, away); err != nil {
		return err
	}
	b.note("all agents had applied the state of the API %.0f s after it was back", time.Since(back).Seconds())
	for _, exclusion := range unknown {
		b.end(time.Now().Add(effectDelay), exclusion)
	}
	if err := b.pause(ctx, "policy takes effect", propagation); err != nil {
		return err
	}
	b.mu.Lock()
	clear(b.overrides)
	b.mu.Unlock()
	if err := b.writeTargets(); err != nil {
		return err
	}
	return b.pause(ctx, "all is back", 20*time.Second)
}

// restartContainer kills the container of a prober, and waits until kubelet has started it again.
func (b *badDays) restartContainer(ctx context.Context, pod string) error {
	killed := time.Now()
	if err := b.killContainer(ctx, pod, "container"); err != nil {
		return err
	}
	e := b.exclude("of a pod whose container restarts", killed.Add(-inFlight), []string{pod}, true)
	if err := b.untilStarted(ctx, pod, killed); err != nil {
		return err
	}
	b.end(time.Now().Add(time.Second), e)
	return nil
}

// replaceSandbox kills the sandbox of a prober, and waits until the prober runs in a new one. It
// returns an exclusion without an end: that other nodes do not know the new addresses.
func (b *badDays) replaceSandbox(ctx context.Context, pod string) (*badday.Exclusion, error) {
	killed := time.Now()
	if err := b.relaxDenials(b.pods[pod]); err != nil {
		return nil, err
	}
	if err := b.killContainer(ctx, pod, "sandbox"); err != nil {
		return nil, err
	}
	restarts := b.exclude("of a pod whose sandbox is replaced", killed.Add(-inFlight), []string{pod}, false)
	unknown := b.exclude("between a pod with a new sandbox and pods of other nodes, "+
		"until 5 s after their agents have its address from the API", killed.Add(-inFlight), []string{pod}, false)
	unknown.Peers = b.podsElsewhere(b.pods[pod].node)
	if err := b.untilStarted(ctx, pod, killed); err != nil {
		return nil, err
	}
	b.end(time.Now().Add(propagation), restarts)
	return unknown, nil
}

// untilStarted waits until a prober has started after a time.
func (b *badDays) untilStarted(ctx context.Context, pod string, after time.Time) error {
	return b.until(ctx, pod+" runs again", func() (bool, error) { return b.started([]string{pod}, after), nil })
}

// relaxDenials is for a client that gets addresses that the API does not have. On other nodes, no
// rule that selects the client matches it. So the rule that denies banned clients does not, and their
// packets to the servers open pass there. A default deny, and rules on the client's own node, still
// apply.
func (b *badDays) relaxDenials(client *meshPod) error {
	if client.podKind.name != "banned" {
		return nil
	}
	err := b.override(client.name(), "open", probe.Either) // the service
	for _, name := range b.podsElsewhere(client.node) {
		if b.pods[name].podKind.name == "open" {
			err = errors.Join(err, b.override(client.name(), name, probe.Either))
		}
	}
	return err
}

// podsElsewhere returns the pods of all nodes but one.
func (b *badDays) podsElsewhere(node string) []string {
	var names []string
	for name, pod := range b.pods {
		if pod.node != node {
			names = append(names, name)
		}
	}
	return names
}

// restoreBackup takes a backup, changes policies and pods, and restores the backup.
func (b *badDays) restoreBackup(ctx context.Context) error {
	backup := b.c.state("etcd-backup")
	defer os.RemoveAll(backup)
	defer b.runControl(context.WithoutCancel(ctx))
	kind := func(name string) podKind {
		return podKinds()[slices.IndexFunc(podKinds(), func(k podKind) bool { return k.name == name })]
	}
	extra, late := "extra-"+b.c.nodes()[0], "late-"+b.c.nodes()[0]
	remove := func(name string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.pods, name)
	}
	if err := b.makePods(ctx, kind("extra")); err != nil {
		return err
	}
	created := b.exclude("of a pod that is new", time.Now(), []string{extra}, false)
	if err := b.waitForPods(ctx); err != nil {
		return err
	}
	b.end(time.Now().Add(propagation), created)
	if err := b.pause(ctx, "before the backup", propagation); err != nil {
		return err
	}

	if err := b.backUpEtcd(ctx, backup); err != nil {
		return err
	}
	b.progress("the backup has been taken; policies and pods change")

	// Later than the backup: guests are no longer allowed, strangers are.
	deleted := b.exclude(whyDeleted, time.Now().Add(-inFlight), []string{extra, late}, false)
	if err := b.expectEither(ctx); err != nil {
		return err
	}
	if err := b.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "networkpolicy", "allow-guests"); err != nil {
		return err
	}
	if err := b.apply(ctx, []object{allowNamespace(false, "allow-strangers", "strangers")}); err != nil {
		return err
	}
	if err := b.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "pod", extra); err != nil {
		return err
	}
	remove(extra)
	if err := b.makePods(ctx, kind("late")); err != nil {
		return err
	}
	if err := b.waitForPods(ctx); err != nil {
		return err
	}
	if err := b.agentsApplied(ctx); err != nil {
		return err
	}
	if err := b.pause(ctx, "policy takes effect", propagation); err != nil {
		return err
	}
	err := errors.Join(b.override("guest", "guarded", probe.Deny), b.override("stranger", "guarded", probe.Allow))
	if err != nil {
		return err
	}
	if err := b.pause(ctx, "traffic with the new policies", 20*time.Second); err != nil {
		return err
	}

	b.progress("etcd is restored")
	if err := b.expectEither(ctx); err != nil {
		return err
	}
	remove(late)
	restored := time.Now()
	if err := b.restoreEtcd(ctx, backup); err != nil {
		return err
	}
	back := time.Now()
	if err := b.agentsApplied(ctx); err != nil {
		return err
	}
	b.note("all agents read the API %.0f s after it was back with the old state", time.Since(back).Seconds())
	if err := b.pause(ctx, "policy takes effect again", propagation); err != nil {
		return err
	}
	b.mu.Lock()
	clear(b.overrides)
	b.pods[extra] = &meshPod{podKind: kind("extra"), node: b.c.nodes()[0]}
	b.mu.Unlock()
	if err := b.podsAreBack(ctx, []string{extra}, restored); err != nil {
		return err
	}
	b.end(time.Now().Add(effectDelay), deleted)
	b.note("kubelet had made the deleted pod again after %.0f s", time.Since(restored).Seconds())
	if err := b.pause(ctx, "traffic with the old policies", propagation+20*time.Second); err != nil {
		return err
	}
	remove(extra)
	b.exclude(whyDeleted, time.Now().Add(-inFlight), []string{extra}, false)
	return b.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "pod", extra)
}

// backUpEtcd copies the data of etcd while it does not run.
func (b *badDays) backUpEtcd(ctx context.Context, backup string) error {
	if err := b.runControl(ctx, apiServerName, "etcd"); err != nil {
		return err
	}
	if err := os.CopyFS(backup, os.DirFS(b.c.state("etcd"))); err != nil {
		return err
	}
	if err := b.runControl(ctx); err != nil {
		return err
	}
	return b.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz")
}

// restoreEtcd gives etcd the data of a backup, and starts the control plane, kubelet and kube-proxy
// again. The documentation of etcd demands that: kubelet and kube-proxy would keep what they know.
// The agents are not restarted.
func (b *badDays) restoreEtcd(ctx context.Context, backup string) error {
	err := b.runControl(ctx, apiServerName, "etcd", "kube-controller-manager", "kube-scheduler")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(b.c.state("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(b.c.state("etcd"), os.DirFS(backup)); err != nil {
		return err
	}
	if err := b.runControl(ctx); err != nil {
		return err
	}
	if err := b.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	b.progress("the API server has the old state")
	return b.c.eachNode(func(_ int, name string) error {
		return b.restartServices(ctx, name, "kubelet", "kube-proxy")
	})
}

// expectEither accepts any result of probes of guests and strangers while their policies change.
func (b *badDays) expectEither(ctx context.Context) error {
	err := errors.Join(b.override("guest", "guarded", probe.Either), b.override("stranger", "guarded", probe.Either))
	if err != nil {
		return err
	}
	return b.pause(ctx, "the clients read their targets", 2*time.Second)
}

// churn makes and deletes pods within a minute, and edits policies meanwhile.
func (b *badDays) churn(ctx context.Context) error {
	editing, stop := context.WithCancel(ctx)
	defer stop()
	edits := 0
	edited := make(chan error, 1)
	go func() {
		for other := true; editing.Err() == nil; other = !other {
			if err := b.apply(editing, policyObjects(other)); err != nil && editing.Err() == nil {
				edited <- err
				return
			}
			edits++
		}
		edited <- b.apply(context.WithoutCancel(ctx), policyObjects(false))
	}()
	start := time.Now()
	if err := b.apply(ctx, silentSets(b.silent)); err != nil {
		return err
	}
	made, reached := 0, 0
	for time.Since(start) < time.Minute {
		phases, err := b.silentPhases(ctx)
		if err != nil {
			return err
		}
		running, all := phases["Running"], phases["Running"]+phases["Pending"]
		if made < b.silent && all >= b.silent {
			b.note("%d pods were made in %.0f s", all, time.Since(start).Seconds())
		}
		made, reached = max(made, all), max(reached, running)
		if reached >= b.silent {
			break
		}
		if err := b.pause(ctx, fmt.Sprintf("%d pods, %d run", all, running), 3*time.Second); err != nil {
			return err
		}
	}
	deleting := time.Now()
	if err := b.deleteSilentPods(ctx); err != nil {
		return err
	}
	b.note("of %d pods, %d ran %.0f s after the start; all were deleted in the API in %.0f s",
		made, reached, deleting.Sub(start).Seconds(), time.Since(deleting).Seconds())
	err := b.until(ctx, "the nodes have removed their sandboxes", func() (bool, error) {
		n, err := b.sandboxes(ctx)
		return n == 0, err
	})
	if err != nil {
		return err
	}
	stop()
	if err := <-edited; err != nil {
		return err
	}
	b.note("the nodes had removed all sandboxes %.0f s after the start; all 8 policies were edited %d times",
		time.Since(start).Seconds(), edits)
	return b.pause(ctx, "all is quiet", 20*time.Second)
}

// silentPods returns silent pods with labels that policies select. Without nodes, the scheduler
// places them.
func silentPods(name string, count int, nodes []string) []object {
	var out []object
	namespaces := silentNamespaces()
	for i := range count {
		spec := object{
			"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 0,
			"containers": []object{{"name": "pause", "image": pauseImage, "imagePullPolicy": "Never"}},
		}
		if len(nodes) > 0 {
			spec["nodeName"] = nodes[i%len(nodes)]
		}
		pod := newObject("v1", "Pod", namespaces[i%len(namespaces)], fmt.Sprintf("%s-%d", name, i), object{
			"role": "friend", "silent": "true",
		}, spec)
		delete(pod["metadata"].(object)["labels"].(object), proberLabel)
		out = append(out, pod)
	}
	return out
}

// silentSets returns sets of silent pods in several namespaces: the controller manager makes pods
// faster than kubectl.
func silentSets(count int) []object {
	namespaces := silentNamespaces()
	var out []object
	for i, pod := range silentPods("silent", len(namespaces), nil) {
		replicas := count / len(namespaces)
		if i < count%len(namespaces) {
			replicas++
		}
		metadata := pod["metadata"].(object)
		out = append(out, newObject("apps/v1", "ReplicaSet", namespaces[i], "silent", nil, object{
			"replicas": replicas,
			"selector": object{"matchLabels": object{"silent": "true"}},
			"template": object{"metadata": object{"labels": metadata["labels"]}, "spec": pod["spec"]},
		}))
	}
	return out
}

func silentNamespaces() []string { return []string{"guarded", "partners", "strangers", "guests"} }

// deleteSilentPods deletes the silent pods in the API, each namespace with one request. The nodes end them
// later.
func (b *badDays) deleteSilentPods(ctx context.Context) error {
	err := b.c.kubectl(ctx, "delete", "replicasets", "-A", "-l", proberLabel+"=true", "--cascade=orphan",
		"--ignore-not-found")
	for _, namespace := range silentNamespaces() {
		err = errors.Join(err, b.c.kubectl(ctx, "delete", "--raw",
			"/api/v1/namespaces/"+namespaceName(namespace)+"/pods?labelSelector=silent%3Dtrue"))
	}
	return err
}

// silentPhases returns the number of silent pods by phase.
func (b *badDays) silentPhases(ctx context.Context) (map[string]int, error) {
	cmd := b.c.kubectlCommand(ctx, "get", "pods", "-A", "-l", "silent=true", "-o", "custom-columns=P:.status.phase",
		"--no-headers")
	printed, err := cmd.Output()
	phases := map[string]int{}
	for _, phase := range strings.Fields(string(printed)) {
		phases[phase]++
	}
	return phases, err
}

// sandboxes returns how many sandboxes of silent pods the nodes have.
func (b *badDays) sandboxes(ctx context.Context) (int, error) {
	counts := make([]int, b.c.Nodes)
	err := b.c.eachNode(func(i int, name string) error {
		printed, err := b.ctrOutput(ctx, name, "containers", "ls", "-q", `labels."silent"==true`)
		counts[i] = len(strings.Fields(printed))
		return err
	})
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}
