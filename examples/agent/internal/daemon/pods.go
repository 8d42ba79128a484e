// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"

	"github.com/wayleave/wayleave/datastore"
	"github.com/wayleave/wayleave/examples/agent/internal/kube"
	"github.com/wayleave/wayleave/examples/agent/internal/pipeline"
	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// markPod marks an endpoint as a pod of the Kubernetes API, if the request has the pod's UID. Then
// the registered endpoint only provides interface and addresses: labels and profiles come from the
// API.
//
// An empty UID is an error, because the endpoint could get the labels of another pod with the same
// name.
func (d *Daemon) markPod(e *policy.WorkloadEndpoint, request url.Values) error {
	if d.kube == nil || !request.Has(api.PodUID) {
		return nil
	}
	uid := request.Get(api.PodUID)
	if uid == "" {
		return fmt.Errorf("pod %s/%s has no UID: the container runtime must set K8S_POD_UID in CNI_ARGS", e.Namespace,
			e.Name)
	}
	if e.Labels = maps.Clone(e.Labels); e.Labels == nil {
		e.Labels = map[string]string{}
	}
	e.Labels[kube.LabelPodUID] = uid
	return nil
}

// podUID returns the UID of an endpoint, if the endpoint is a pod of the API.
func (r *registered) podUID(e *policy.WorkloadEndpoint) (uid string, ok bool) {
	if r.kube == nil || e == nil {
		return "", false
	}
	uid, ok = e.Labels[kube.LabelPodUID]
	return uid, ok
}

// attach sends interface and addresses of a pod to the source of the API. For an endpoint that is
// no pod, it does nothing.
func (r *registered) attach(e *policy.WorkloadEndpoint) error {
	uid, ok := r.podUID(e)
	if !ok {
		return nil
	}
	return r.kube.Attach(e, uid)
}

// attachAll attaches the pods that were registered with an earlier process.
func (r *registered) attachAll() (problems []error) {
	for _, e := range r.All() {
		if err := r.attach(e); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// detach removes interface and addresses of a pod from the source of the API. The pod is that of
// the endpoint e; if e is nil, it is the pod with the UID.
func (r *registered) detach(key policy.Key, e *policy.WorkloadEndpoint, uid string) {
	if known, ok := r.podUID(e); ok {
		uid = known
	}
	if r.kube != nil && uid != "" {
		r.kube.Detach(key, uid)
	}
}

// Run sends the registered endpoints to the receiver, except pods of the API; see datastore.Source.
func (r *registered) Run(ctx context.Context, out datastore.Receiver) error {
	return r.Registry.Run(ctx, &withoutPods{r, out})
}

// withoutPods passes endpoints on to a receiver, except pods of the API.
type withoutPods struct {
	registered *registered
	datastore.Receiver
}

// Update passes on updates. For a pod of the API, it passes on a removal.
func (w *withoutPods) Update(ctx context.Context, updates []policy.Update) error {
	kept := make([]policy.Update, len(updates))
	for i, u := range updates {
		if e, ok := u.Resource.(*policy.WorkloadEndpoint); ok {
			if _, pod := w.registered.podUID(e); pod {
				u.Resource = nil
			}
		}
		kept[i] = u
	}
	return w.Receiver.Update(ctx, kept)
}

// Barrier calls the Barrier of the receiver.
func (w *withoutPods) Barrier(ctx context.Context) error { return datastore.Barrier(ctx, w.Receiver) }

// waitPod waits until a pod of the API is programmed with its interface and addresses. If the API
// does not have the pod yet, waitPod waits for the pod, too.
func (d *Daemon) waitPod(ctx context.Context, p *pipeline.Pipeline, e *policy.WorkloadEndpoint) error {
	if err := d.kube.Barrier(ctx); err != nil {
		return stopped(err)
	}
	err := p.WaitAttached(ctx, e)
	if errors.Is(err, context.DeadlineExceeded) && p.World()[e.Key()] == nil {
		uid, _ := d.registry.podUID(e)
		return fmt.Errorf("the Kubernetes API has no pod %s/%s with the UID %s on node %s: %w", e.Namespace, e.Name,
			uid, d.local.Node, err)
	}
	return err
}
