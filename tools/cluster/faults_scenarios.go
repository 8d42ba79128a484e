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

	"github.com/wayleave/wayleave/tools/cluster/internal/losses"
	"github.com/wayleave/wayleave/tools/cluster/internal/machine"
	"github.com/wayleave/wayleave/tools/cluster/internal/probe"
)

// countResends makes TCP segments that were sent again fail the scenario, in scenarios that lose no
// packet.
func (r *faultRun) countResends() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.NoResends = true
}

func (r *faultRun) idle(ctx context.Context) error {
	r.countResends()
	return r.pause(ctx, "nothing happens", 30*time.Second)
}

// killNode kills the second node, waits until Kubernetes has noticed, and starts it again.
func (r *faultRun) killNode(ctx context.Context) error {
	const index = 1
	name := r.c.nodes()[index]
	node, err := machine.Open(r.c.machine(name))
	if err != nil {
		return err
	}
	if err := r.pause(ctx, "before the fault", 10*time.Second); err != nil {
		return err
	}
	pods := r.podsOn(name)
	killed := time.Now()
	r.progress("%s is killed", name)
	if err := node.Kill(); err != nil {
		return err
	}
	defer r.ensureNode(ctx, index)
	dead := r.exclude(deadNode, killed.Add(-inFlight), pods, false)
	endpoints := r.exclude(deadBackend, killed.Add(-inFlight), pods, true)
	err = r.until(ctx, "the services have no ready endpoint on "+name, func() (bool, error) {
		n, err := r.readyEndpoints(ctx, name)
		return n == 0, err
	})
	if err != nil {
		return err
	}
	r.note("the endpoints on the dead node went after %.0f s", time.Since(killed).Seconds())
	r.end(time.Now().Add(propagation), endpoints)
	if err := r.pause(ctx, "traffic between the other nodes", 20*time.Second); err != nil {
		return err
	}

	for _, pod := range pods {
		if err := r.relaxDenials(r.pods[pod]); err != nil {
			return err
		}
	}
	r.progress("%s starts", name)
	started := time.Now()
	if err := r.c.startNode(ctx, index); err != nil {
		return err
	}
	if err := r.waitForRestartedPods(ctx, pods, started); err != nil {
		return err
	}
	r.note("the API had its pods with their new addresses after %.0f s", time.Since(started).Seconds())
	r.end(time.Now().Add(effectDelay), dead)
	if err := r.clearOverrides(); err != nil {
		return err
	}
	if err := r.c.kubectl(ctx, "wait", "--for=condition=Ready", "node/"+name, "--timeout=120s"); err != nil {
		return err
	}
	if err := r.pause(ctx, "traffic with all nodes", propagation+20*time.Second); err != nil {
		return err
	}
	r.excludeUntilListening(pods)
	return nil
}

// ensureNode starts a node again if a scenario was aborted before the node was started, or
// meanwhile.
func (r *faultRun) ensureNode(ctx context.Context, index int) {
	if node, err := machine.Open(r.c.machine(r.c.nodes()[index])); err == nil && node.Configured() {
		return
	}
	if err := r.c.startNode(context.WithoutCancel(ctx), index); err != nil {
		r.progress("start %s: %v", r.c.nodes()[index], err)
	}
}

// agentsApplied waits until the agents of all nodes read the API, have the prober pods as it has
// them, and have programmed them. After a long outage, they try to read it every 15 to 23 s.
func (r *faultRun) agentsApplied(ctx context.Context) error {
	return r.until(ctx, "all agents have applied the state of the API", func() (bool, error) {
		applied := make([]bool, r.c.Nodes)
		err := r.c.eachNode(func(i int, name string) error {
			m, err := machine.Open(r.c.machine(name))
			if err != nil {
				return err
			}
			printed, err := m.Command(ctx, r.c.bin("agent"), "status", "-o", "json").Output()
			if err == nil {
				applied[i], err = hasApplied(printed, r.resourceVersion)
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

// waitForRestartedPods waits until probers have started again, the API has their addresses, and the
// agents have applied them.
func (r *faultRun) waitForRestartedPods(ctx context.Context, pods []string, after time.Time) error {
	err := r.until(ctx, fmt.Sprintf("%d probers have started", len(pods)), func() (bool, error) {
		return r.started(pods, after), nil
	})
	if err != nil {
		return err
	}
	err = r.until(ctx, "the API has their addresses", func() (bool, error) { return r.readAddresses(ctx) })
	if err != nil {
		return err
	}
	known := time.Now()
	if err := r.agentsApplied(ctx); err != nil {
		return err
	}
	r.note("all agents had applied the new addresses %.0f s after the API had them", time.Since(known).Seconds())
	return nil
}

// readyEndpoints returns how many ready endpoints the services have on a node.
func (r *faultRun) readyEndpoints(ctx context.Context, node string) (int, error) {
	var list struct{ Items []endpointSlice }
	total := 0
	for name := range r.services {
		if err := r.get(ctx, &list, "endpointslices", "-n", namespaceName(name)); err != nil {
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
func (r *faultRun) upgradeAgents(ctx context.Context) error {
	r.countResends()
	other := strings.TrimSuffix(agentImage, ":dev") + ":next"
	err := r.c.eachNode(func(_ int, name string) error {
		return r.ctr(ctx, name, "images", "tag", "--force", agentImage, other)
	})
	if err != nil {
		return err
	}
	set := func(ctx context.Context, image string) error {
		return r.c.kubectl(ctx, "-n", "wayleave", "set", "image", "daemonset/wayleave-agent",
			"install-cni="+image, "agent="+image)
	}
	defer func() {
		_ = set(context.WithoutCancel(ctx), agentImage) // if the scenario was aborted
		_ = r.c.eachNode(func(_ int, name string) error {
			return r.ctr(context.WithoutCancel(ctx), name, "images", "rm", other)
		})
	}()
	if err := r.pause(ctx, "before the upgrade", 5*time.Second); err != nil {
		return err
	}
	for _, change := range []struct {
		name string
		run  func() error
	}{
		{"upgraded", func() error { return set(ctx, other) }},
		{"restarted", func() error {
			return r.c.kubectl(ctx, "-n", "wayleave", "rollout", "restart", "daemonset/wayleave-agent")
		}},
		{"set back", func() error { return set(ctx, agentImage) }},
	} {
		start := time.Now()
		if err := change.run(); err != nil {
			return err
		}
		err := r.c.kubectl(ctx, "-n", "wayleave", "rollout", "status", "daemonset/wayleave-agent", "--timeout=300s")
		if err != nil {
			return err
		}
		r.note("all agents were %s after %.0f s", change.name, time.Since(start).Seconds())
		if err := r.pause(ctx, "traffic after the change", 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

// stopAPIServer stops the API server. Meanwhile containers and sandboxes are killed on the nodes,
// and kubelet makes them again. Pods that were made just before are deleted just after.
func (r *faultRun) stopAPIServer(ctx context.Context) error {
	if err := r.pause(ctx, "before the fault", 5*time.Second); err != nil {
		return err
	}
	nodes := r.c.nodes()
	if err := r.apply(ctx, loadPods("before", 30, nodes)); err != nil {
		return err
	}
	stopped := time.Now()
	// With several control planes, these two would end, too, when they cannot renew their leases.
	if err := r.runControl(ctx, apiServerName, "kube-controller-manager", "kube-scheduler"); err != nil {
		return err
	}
	defer r.runControl(context.WithoutCancel(ctx))
	r.progress("the API server is stopped")

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
	var unknown []*losses.Exclusion
	containers := 0
	pause := max(r.outage/time.Duration(len(faults)+1), 5*time.Second)
	for _, fault := range faults {
		if time.Since(stopped) > r.outage-pause {
			break
		}
		if err := r.pause(ctx, "without the API server", pause); err != nil {
			return err
		}
		if !fault.sandbox {
			if err := r.restartContainer(ctx, fault.pod); err != nil {
				return err
			}
			containers++
			continue
		}
		exclusion, err := r.replaceSandbox(ctx, fault.pod)
		if err != nil {
			return err
		}
		moved, unknown = append(moved, fault.pod), append(unknown, exclusion)
	}
	if rest := r.outage - time.Since(stopped); rest > 0 {
		if err := r.pause(ctx, "without the API server", rest); err != nil {
			return err
		}
	}
	replaced := 0
	for _, pod := range moved {
		if r.started([]string{pod}, stopped) {
			replaced++
		}
	}
	r.note("the API server was stopped for %.0f s; kubelet restarted %d containers, and replaced %d of %d sandboxes",
		time.Since(stopped).Seconds(), containers, replaced, len(moved))
	if err := r.runControl(ctx); err != nil {
		return err
	}
	if err := r.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	running := time.Now()
	r.progress("the API server runs again")
	if err := r.deleteLoadPods(ctx); err != nil {
		return err
	}
	if err := r.waitForRestartedPods(ctx, moved, stopped); err != nil {
		return err
	}
	r.note("all agents had applied the state of the API %.0f s after it ran again", time.Since(running).Seconds())
	for _, exclusion := range unknown {
		r.end(time.Now().Add(effectDelay), exclusion)
	}
	if err := r.pause(ctx, "policy takes effect", propagation); err != nil {
		return err
	}
	if err := r.clearOverrides(); err != nil {
		return err
	}
	return r.pause(ctx, "traffic after the outage", 20*time.Second)
}

// restartContainer kills the container of a prober, and waits until kubelet has started it again.
func (r *faultRun) restartContainer(ctx context.Context, pod string) error {
	killed := time.Now()
	if err := r.killContainer(ctx, pod, "container"); err != nil {
		return err
	}
	e := r.exclude(restartedContainer, killed.Add(-inFlight), []string{pod}, true)
	if err := r.untilStarted(ctx, pod, killed); err != nil {
		return err
	}
	r.end(time.Now().Add(time.Second), e)
	return nil
}

// replaceSandbox kills the sandbox of a prober, and waits until the prober runs in a new one. The
// returned exclusion is open: the caller ends it once other nodes have the new addresses.
func (r *faultRun) replaceSandbox(ctx context.Context, pod string) (*losses.Exclusion, error) {
	killed := time.Now()
	if err := r.relaxDenials(r.pods[pod]); err != nil {
		return nil, err
	}
	if err := r.killContainer(ctx, pod, "sandbox"); err != nil {
		return nil, err
	}
	restarts := r.exclude(replacedSandbox, killed.Add(-inFlight), []string{pod}, false)
	unknown := r.exclude(unknownAddress, killed.Add(-inFlight), []string{pod}, false)
	unknown.Peers = r.podsElsewhere(r.pods[pod].node)
	if err := r.untilStarted(ctx, pod, killed); err != nil {
		return nil, err
	}
	r.end(time.Now().Add(propagation), restarts)
	return unknown, nil
}

// untilStarted waits until a prober has started after a time.
func (r *faultRun) untilStarted(ctx context.Context, pod string, after time.Time) error {
	return r.until(ctx, pod+" runs again", func() (bool, error) { return r.started([]string{pod}, after), nil })
}

// relaxDenials accepts any result of probes from a banned client to servers of kind open on other
// nodes. Until these nodes know the client's new address, the rule that denies banned clients does
// not match it there. A default deny, and rules on the client's own node, still apply.
func (r *faultRun) relaxDenials(client *proberPod) error {
	if client.podKind.name != "banned" {
		return nil
	}
	err := r.override(client.name(), "open", probe.Either) // the service
	for _, name := range r.podsElsewhere(client.node) {
		if r.pods[name].podKind.name == "open" {
			err = errors.Join(err, r.override(client.name(), name, probe.Either))
		}
	}
	return err
}

// podsElsewhere returns the pods of all nodes but one.
func (r *faultRun) podsElsewhere(node string) []string {
	var names []string
	for name, pod := range r.pods {
		if pod.node != node {
			names = append(names, name)
		}
	}
	return names
}

// restoreBackup takes a backup, changes policies and pods, and restores the backup.
func (r *faultRun) restoreBackup(ctx context.Context) error {
	backup := r.c.state("etcd-backup")
	defer os.RemoveAll(backup)
	defer r.runControl(context.WithoutCancel(ctx))
	kind := func(name string) podKind {
		return podKinds()[slices.IndexFunc(podKinds(), func(k podKind) bool { return k.name == name })]
	}
	extra, afterBackup := "extra-"+r.c.nodes()[0], "afterbackup-"+r.c.nodes()[0]
	created := r.exclude(newPod, time.Now(), []string{extra}, false)
	if err := r.makePods(ctx, kind("extra")); err != nil {
		return err
	}
	if err := r.waitForPods(ctx); err != nil {
		return err
	}
	r.end(time.Now().Add(propagation), created)
	if err := r.pause(ctx, "before the backup", propagation); err != nil {
		return err
	}

	if err := r.backUpEtcd(ctx, backup); err != nil {
		return err
	}
	r.progress("the backup has been taken; policies and pods change")

	// Later than the backup: guests are no longer allowed, strangers are.
	deleted := r.exclude(deletedPod, time.Now().Add(-inFlight), []string{extra, afterBackup}, false)
	if err := r.expectEither(ctx); err != nil {
		return err
	}
	if err := r.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "networkpolicy", "allow-guests"); err != nil {
		return err
	}
	if err := r.apply(ctx, []object{allowNamespace(false, "allow-strangers", "strangers")}); err != nil {
		return err
	}
	if err := r.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "pod", extra); err != nil {
		return err
	}
	r.removePod(extra)
	if err := r.makePods(ctx, kind("afterbackup")); err != nil {
		return err
	}
	if err := r.waitForPods(ctx); err != nil {
		return err
	}
	if err := r.agentsApplied(ctx); err != nil {
		return err
	}
	if err := r.pause(ctx, "policy takes effect", propagation); err != nil {
		return err
	}
	err := errors.Join(r.override("guest", "guarded", probe.Deny), r.override("stranger", "guarded", probe.Allow))
	if err != nil {
		return err
	}
	if err := r.pause(ctx, "traffic with the new policies", 20*time.Second); err != nil {
		return err
	}

	r.progress("etcd is restored")
	if err := r.expectEither(ctx); err != nil {
		return err
	}
	r.removePod(afterBackup)
	restored := time.Now()
	if err := r.restoreEtcd(ctx, backup); err != nil {
		return err
	}
	running := time.Now()
	if err := r.agentsApplied(ctx); err != nil {
		return err
	}
	r.note("all agents read the API %.0f s after it had the old state again", time.Since(running).Seconds())
	if err := r.pause(ctx, "policy takes effect again", propagation); err != nil {
		return err
	}
	r.mu.Lock()
	clear(r.overrides)
	r.pods[extra] = &proberPod{podKind: kind("extra"), node: r.c.nodes()[0]}
	r.mu.Unlock()
	if err := r.waitForRestartedPods(ctx, []string{extra}, restored); err != nil {
		return err
	}
	r.end(time.Now().Add(effectDelay), deleted)
	r.note("kubelet had made the deleted pod again after %.0f s", time.Since(restored).Seconds())
	if err := r.pause(ctx, "traffic with the old policies", propagation+20*time.Second); err != nil {
		return err
	}
	r.removePod(extra)
	r.exclude(deletedPod, time.Now().Add(-inFlight), []string{extra}, false)
	return r.c.kubectl(ctx, "-n", namespaceName("guarded"), "delete", "pod", extra)
}

// backUpEtcd copies the data of etcd while it does not run.
func (r *faultRun) backUpEtcd(ctx context.Context, backup string) error {
	if err := r.runControl(ctx, apiServerName, "etcd"); err != nil {
		return err
	}
	if err := os.CopyFS(backup, os.DirFS(r.c.state("etcd"))); err != nil {
		return err
	}
	if err := r.runControl(ctx); err != nil {
		return err
	}
	return r.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz")
}

// restoreEtcd gives etcd the data of a backup, and starts the control plane, kubelet and kube-proxy
// again. The documentation of etcd says to restart them, because their caches have the later state.
// The agents are not restarted.
func (r *faultRun) restoreEtcd(ctx context.Context, backup string) error {
	err := r.runControl(ctx, apiServerName, "etcd", "kube-controller-manager", "kube-scheduler")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(r.c.state("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(r.c.state("etcd"), os.DirFS(backup)); err != nil {
		return err
	}
	if err := r.runControl(ctx); err != nil {
		return err
	}
	if err := r.c.waitFor(ctx, waitLimit, "get", "--raw=/readyz"); err != nil {
		return err
	}
	r.progress("the API server has the old state")
	return r.c.eachNode(func(_ int, name string) error {
		return r.restartPrograms(ctx, name, "kubelet", "kube-proxy")
	})
}

// expectEither accepts any result of probes of guests and strangers while their policies change.
func (r *faultRun) expectEither(ctx context.Context) error {
	err := errors.Join(r.override("guest", "guarded", probe.Either), r.override("stranger", "guarded", probe.Either))
	if err != nil {
		return err
	}
	return r.pause(ctx, "the clients read their targets", 2*time.Second)
}

// churn makes and deletes pods within a minute, and edits policies meanwhile.
func (r *faultRun) churn(ctx context.Context) error {
	stop := r.editPolicies(ctx)
	defer stop() // also on an early return: the clean-up deletes the policies
	start := time.Now()
	if err := r.apply(ctx, loadSets(r.loadPods)); err != nil {
		return err
	}
	made, reached := 0, 0
	for time.Since(start) < time.Minute {
		phases, err := r.loadPhases(ctx)
		if err != nil {
			return err
		}
		running, all := phases["Running"], phases["Running"]+phases["Pending"]
		if made < r.loadPods && all >= r.loadPods {
			r.note("%d pods were made in %.0f s", all, time.Since(start).Seconds())
		}
		made, reached = max(made, all), max(reached, running)
		if reached >= r.loadPods {
			break
		}
		if err := r.pause(ctx, fmt.Sprintf("%d pods, %d run", all, running), 3*time.Second); err != nil {
			return err
		}
	}
	deleting := time.Now()
	if err := r.deleteLoadPods(ctx); err != nil {
		return err
	}
	r.note("of %d pods, %d ran %.0f s after the start; all were deleted in the API in %.0f s",
		made, reached, deleting.Sub(start).Seconds(), time.Since(deleting).Seconds())
	return r.endLoad(ctx, start, stop)
}

const (
	// turnoverPods is the number of pods of the scenario turnover, turnoverReplicas that at a time.
	turnoverPods     = 1000
	turnoverReplicas = 60
)

// turnover deletes pods that replica sets make again, and edits policies meanwhile.
func (r *faultRun) turnover(ctx context.Context) error {
	stop := r.editPolicies(ctx)
	defer stop()
	start := time.Now()
	if err := r.apply(ctx, loadSets(turnoverReplicas)); err != nil {
		return err
	}
	deleted, ran := 0, 0
	for limit := time.Now().Add(waitLimit); deleted < turnoverPods; {
		if time.Now().After(limit) {
			return fmt.Errorf("only %d pods were made in %s", deleted, waitLimit)
		}
		phases, err := r.loadPhases(ctx)
		if err != nil {
			return err
		}
		printed, err := r.c.kubectlCommand(ctx, "delete", "pods", "-A", "-l", "load=true", "--wait=false",
			"--ignore-not-found", "-o", "name").Output()
		if err != nil {
			return fmt.Errorf("delete pods: %w", err)
		}
		ran += phases["Running"]
		deleted += len(strings.Fields(string(printed)))
		if err := r.pause(ctx, fmt.Sprintf("%d pods deleted, %d ran", deleted, ran), time.Second); err != nil {
			return err
		}
	}
	took := time.Since(start)
	if err := r.deleteLoadPods(ctx); err != nil {
		return err
	}
	r.note("%d pods were made and deleted in %.0f s; %d of them ran", deleted, took.Seconds(), ran)
	return r.endLoad(ctx, start, stop)
}

// endLoad waits until the nodes have removed the load pods, and ends the edits of policies.
func (r *faultRun) endLoad(ctx context.Context, start time.Time, stop func() (edits int, err error)) error {
	err := r.until(ctx, "the nodes have removed their sandboxes", func() (bool, error) {
		n, err := r.sandboxes(ctx)
		return n == 0, err
	})
	if err != nil {
		return err
	}
	edits, err := stop()
	if err != nil {
		return err
	}
	r.note("the nodes had removed all sandboxes %.0f s after the start; all 8 policies were edited %d times",
		time.Since(start).Seconds(), edits)
	return r.pause(ctx, "traffic without load", 20*time.Second)
}

// editPolicies edits all policies again and again, until stop is called. That sets them back, and
// returns how often they were edited. It may be called more than once.
func (r *faultRun) editPolicies(ctx context.Context) (stop func() (edits int, err error)) {
	editing, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	var edits int
	var problem error
	go func() {
		defer close(done)
		for other := true; editing.Err() == nil; other = !other {
			err := r.apply(editing, policyObjects(other))
			if err == nil {
				edits++
			} else if editing.Err() == nil {
				problem = err
				return
			}
		}
		restoring, end := context.WithTimeout(context.WithoutCancel(ctx), waitLimit)
		defer end()
		problem = r.apply(restoring, policyObjects(false))
	}()
	return func() (int, error) {
		cancel()
		<-done
		return edits, problem
	}
}

// loadPods returns pods without a prober, with labels that policies select. Without nodes, the
// scheduler places them.
func loadPods(name string, count int, nodes []string) []object {
	var out []object
	namespaces := loadNamespaces()
	for i := range count {
		spec := object{
			"automountServiceAccountToken": false, "enableServiceLinks": false, "terminationGracePeriodSeconds": 0,
			"containers": []object{{"name": "pause", "image": pauseImage, "imagePullPolicy": "Never"}},
		}
		if len(nodes) > 0 {
			spec["nodeName"] = nodes[i%len(nodes)]
		}
		pod := newObject("v1", "Pod", namespaces[i%len(namespaces)], fmt.Sprintf("%s-%d", name, i), object{
			"role": "friend", "load": "true",
		}, spec)
		delete(pod["metadata"].(object)["labels"].(object), proberLabel)
		out = append(out, pod)
	}
	return out
}

// loadSets returns sets of such pods in several namespaces: the controller manager makes pods
// faster than kubectl.
func loadSets(count int) []object {
	namespaces := loadNamespaces()
	var out []object
	for i, pod := range loadPods("load", len(namespaces), nil) {
		replicas := count / len(namespaces)
		if i < count%len(namespaces) {
			replicas++
		}
		metadata := pod["metadata"].(object)
		out = append(out, newObject("apps/v1", "ReplicaSet", namespaces[i], "load", nil, object{
			"replicas": replicas,
			"selector": object{"matchLabels": object{"load": "true"}},
			"template": object{"metadata": object{"labels": metadata["labels"]}, "spec": pod["spec"]},
		}))
	}
	return out
}

func loadNamespaces() []string { return []string{"guarded", "partners", "strangers", "guests"} }

// deleteLoadPods deletes the load pods in the API, each namespace with one request. The nodes end
// them later.
func (r *faultRun) deleteLoadPods(ctx context.Context) error {
	err := r.c.kubectl(ctx, "delete", "replicasets", "-A", "-l", proberLabel+"=true", "--cascade=orphan",
		"--ignore-not-found")
	for _, namespace := range loadNamespaces() {
		err = errors.Join(err, r.c.kubectl(ctx, "delete", "--raw",
			"/api/v1/namespaces/"+namespaceName(namespace)+"/pods?labelSelector=load%3Dtrue"))
	}
	return err
}

// loadPhases returns the number of load pods by phase.
func (r *faultRun) loadPhases(ctx context.Context) (map[string]int, error) {
	cmd := r.c.kubectlCommand(ctx, "get", "pods", "-A", "-l", "load=true", "-o", "custom-columns=P:.status.phase",
		"--no-headers")
	printed, err := cmd.Output()
	phases := map[string]int{}
	for _, phase := range strings.Fields(string(printed)) {
		phases[phase]++
	}
	return phases, err
}

// sandboxes returns how many sandboxes of load pods the nodes have.
func (r *faultRun) sandboxes(ctx context.Context) (int, error) {
	counts := make([]int, r.c.Nodes)
	err := r.c.eachNode(func(i int, name string) error {
		printed, err := r.ctrOutput(ctx, name, "containers", "ls", "-q", `labels."load"==true`)
		counts[i] = len(strings.Fields(printed))
		return err
	})
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}
