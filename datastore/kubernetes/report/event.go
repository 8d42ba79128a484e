// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/record"
)

// component is the source of Events, and the field manager of patches.
const component = "wayleave"

// unsent is an Event that could not be sent. It is kept so that the correlator processes it once:
// the correlator would count it again.
type unsent struct {
	wanted notice
	event  *record.EventCorrelateResult
}

// writeEvent creates the Event of an object, or increases its count.
func (r *Reporter) writeEvent(ctx context.Context, t task, wanted notice) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	uid, err := r.uid(ctx, t, wanted.uid)
	if err != nil || uid == nil {
		return err
	}
	pending, ok := r.unsent[t]
	if !ok || pending.wanted != wanted {
		result, err := r.correlator.EventCorrelate(r.event(t, wanted, *uid))
		if err != nil {
			return fmt.Errorf("report: event of %s: %w", t.object, err)
		}
		pending = unsent{wanted, result}
		r.unsent[t] = pending
	}
	if pending.event.Skip {
		r.count(func(s *Stats) { s.Suppressed++ })
		return nil
	}
	written, err := r.sendEvent(ctx, pending.event)
	if err != nil {
		return fmt.Errorf("report: event of %s: %w", t.object, err)
	}
	if written != nil {
		r.correlator.UpdateState(written)
		r.count(func(s *Stats) { s.Events++ })
	}
	return nil
}

// sendEvent sends an Event, and returns it as the server has it. It returns nil if the server had
// the Event before.
func (r *Reporter) sendEvent(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	events := r.cfg.Client.CoreV1().Events(result.Event.Namespace)
	if result.Event.Count > 1 {
		written, err := events.Patch(
			ctx, result.Event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{},
		)
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	event := result.Event.DeepCopy()
	event.ResourceVersion = ""
	written, err := events.Create(ctx, event, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil, nil // of an earlier leader or process
	}
	return written, err
}

// uid returns the UID of the object of a task, by which tools find its Events. It is "" if the
// object may not be read, and nil if the object does not exist or is a pod of another node.
func (r *Reporter) uid(ctx context.Context, t task, known types.UID) (*types.UID, error) {
	if t.kind == podTask {
		pod, err := r.cfg.Client.CoreV1().Pods(t.object.Namespace).Get(ctx, t.object.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pod.Spec.NodeName != r.cfg.Node {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("report: get %s: %w", t.object, err)
		}
		return &pod.UID, nil
	}
	if known != "" {
		return &known, nil
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(t.object.APIVersion, t.object.Kind))
	object, err := r.cfg.Dynamic.Resource(plural).Namespace(t.object.Namespace).
		Get(ctx, t.object.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		known = object.GetUID()
	case apierrors.IsNotFound(err):
		return nil, nil
	case !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("report: get %s: %w", t.object, err)
	}
	return &known, nil
}

// event returns the Event of an object. Its name contains a hash of its content, so that several
// leaders write one Event.
func (r *Reporter) event(t task, wanted notice, uid types.UID) *corev1.Event {
	now := metav1.Time{Time: time.Now()}
	namespace := cmp.Or(t.object.Namespace, metav1.NamespaceDefault)
	sum := sha256.Sum256([]byte(fmt.Sprintf("%q", []string{
		t.object.APIVersion, t.object.Kind, t.object.Name, string(uid), wanted.reason, wanted.text,
	})))
	digest := hex.EncodeToString(sum[:])[:20]
	name := t.object.Name + "." + digest
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		name = component + "." + digest
	}
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: t.object.APIVersion, Kind: t.object.Kind, Namespace: t.object.Namespace,
			Name: t.object.Name, UID: uid,
		},
		Reason: wanted.reason, Message: clip(wanted.text, maxNote), Type: corev1.EventTypeWarning,
		Source:         corev1.EventSource{Component: component, Host: r.cfg.Node},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: component, ReportingInstance: r.cfg.Node,
	}
}
