// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/wayleave/wayleave/tools/cluster/internal/losses"
)

// cause is why Kubernetes itself loses probes. docs/cluster.md explains each.
type cause int

const (
	deadNode cause = iota
	deadBackend
	silentBackend
	changedBackend
	restartedContainer
	replacedSandbox
	unknownAddress
	newPod
	deletedPod
	causes // their number
)

// String returns the heading under which the results count the losses.
func (c cause) String() string {
	return [causes]string{
		deadNode:           "dead node",
		deadBackend:        "backend on a dead node",
		silentBackend:      "backend that does not listen yet",
		changedBackend:     "backend that became ready or not ready",
		restartedContainer: "restarted container",
		replacedSandbox:    "replaced sandbox",
		unknownAddress:     "new address without the API server",
		newPod:             "new pod",
		deletedPod:         "deleted or restored pod",
	}[c]
}

// maxLostShare is the share of the new flows through a service that may be lost while one of its
// three backends is missing. It is a third, and a wide margin.
const maxLostShare = 0.6

// exclude adds an exclusion of pods. With services, it covers every service that has one of the
// pods as a backend.
func (r *faultRun) exclude(why cause, start time.Time, pods []string, services bool) *losses.Exclusion {
	e := &losses.Exclusion{Why: why.String(), Start: start}
	for _, name := range pods {
		e.Pods = append(e.Pods, name)
		kind, _, _ := strings.Cut(name, "-")
		if _, isBackend := r.services[kind]; services && isBackend {
			e.Backends = append(e.Backends, name)
			e.Services = append(e.Services, kind)
			e.MaxShare = maxLostShare
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally.Exclude(e)
}

func (r *faultRun) end(at time.Time, exclusions ...*losses.Exclusion) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range exclusions {
		e.End = at
	}
}

// watchEndpoints excludes the flows through a service whose backend becomes ready or not ready,
// until ctx is done. At such a change, kube-proxy ends the entry of the flow in connection
// tracking, also if the backend still answers.
func (r *faultRun) watchEndpoints(ctx context.Context) {
	known := map[string]map[string]bool{} // by slice and pod: ready
	for ctx.Err() == nil {
		cmd := r.c.kubectlCommand(ctx, "get", "endpointslices", "-A", "-l", proberLabel+"=true",
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
				for _, change := range endpointsChanged(known, slice) {
					r.excludeBackend(change)
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

// endpointChange is a pod that became ready or not ready, or was deleted.
type endpointChange struct {
	pod   string
	ready bool
}

// endpointsChanged returns the changes since the last call.
func endpointsChanged(known map[string]map[string]bool, slice endpointSlice) []endpointChange {
	ready := map[string]bool{}
	for _, e := range slice.Endpoints {
		ready[e.TargetRef.Name] = e.Conditions.Ready
	}
	old, seen := known[slice.Metadata.Name]
	known[slice.Metadata.Name] = ready
	if !seen {
		return nil
	}
	var changed []endpointChange
	for pod := range ready {
		if old[pod] != ready[pod] {
			changed = append(changed, endpointChange{pod, ready[pod]})
		}
	}
	for pod, was := range old {
		if _, stays := ready[pod]; was && !stays {
			changed = append(changed, endpointChange{pod, false})
		}
	}
	return changed
}

func (r *faultRun) excludeBackend(change endpointChange) {
	r.progress("backend %s is ready in the API: %t", change.pod, change.ready)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if _, known := r.ready[change.pod]; change.ready && !known { // in the slice of one family
		r.ready[change.pod] = now
	} else if !change.ready {
		delete(r.ready, change.pod)
	}
	if r.tally != nil {
		r.tally.Exclude(&losses.Exclusion{
			Why: changedBackend.String(), Backends: []string{change.pod},
			Start: now.Add(-inFlight), End: now.Add(propagation / 2),
		})
	}
}

// excludeUntilListening excludes the new flows through the services of those pods that are servers.
// For each such pod, the exclusion begins shortly before the API has the pod as a ready endpoint,
// and ends when its prober listens. The pods have no readiness probe, so kubelet reports a
// container as ready when it has started the process.
func (r *faultRun) excludeUntilListening(pods []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range pods {
		ready, isReady := r.ready[name]
		from := ready.Add(-inFlight) // kube-proxy may have the endpoint before the watch reports it
		listening := time.UnixMilli(r.starts[name].Time)
		if pod := r.pods[name]; isReady && pod.server && listening.After(from) {
			r.tally.Exclude(&losses.Exclusion{
				Why: silentBackend.String(), Services: []string{pod.podKind.name}, Start: from, End: listening,
				MaxShare: maxLostShare,
			})
		}
	}
}
