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

// markPod marks an endpoint as a pod of the API if the request says so. The endpoint is then the link of the pod, whose
// labels and profiles come from the API.
//
// Without a UID, the endpoint could get the labels of another pod of that name, so that is an error.
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

// podUID returns the UID of an endpoint that is a pod of the API.
func (r *registered) podUID(e *policy.WorkloadEndpoint) (uid string, ok bool) {
	if r.kube == nil || e == nil {
		return "", false
	}
	uid, ok = e.Labels[kube.LabelPodUID]
	return uid, ok
}

// attach gives a pod of the API its link. It does nothing with an endpoint that is no pod.
func (r *registered) attach(e *policy.WorkloadEndpoint) error {
	uid, ok := r.podUID(e)
	if !ok {
		return nil
	}
	return r.kube.Attach(e, uid)
}

// attachAll attaches the pods that an earlier run has registered.
func (r *registered) attachAll() (problems []error) {
	for _, e := range r.All() {
		if err := r.attach(e); err != nil {
			problems = append(problems, err)
		}
	}
	return problems
}

// detach removes the link of a pod: that of the endpoint that was registered or, if it is nil, that of the pod with a
// UID.
func (r *registered) detach(key policy.Key, e *policy.WorkloadEndpoint, uid string) {
	if known, ok := r.podUID(e); ok {
		uid = known
	}
	if r.kube != nil && uid != "" {
		r.kube.Detach(key, uid)
	}
}

// Run sends the receiver the endpoints but the pods of the API; see datastore.Source.
func (r *registered) Run(ctx context.Context, out datastore.Receiver) error {
	return r.Registry.Run(ctx, &withoutPods{r, out})
}

// withoutPods is a receiver for which pods of the API are absent.
type withoutPods struct {
	registered *registered
	datastore.Receiver
}

// Update passes on the endpoints that are no pods of the API.
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

// Barrier calls that of the receiver.
func (w *withoutPods) Barrier(ctx context.Context) error { return datastore.Barrier(ctx, w.Receiver) }

// waitPod waits until a pod of the API is programmed with its link. If the API does not have the pod yet, it
// waits for that, too.
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
