// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// size is the size of one object in one form.
type size struct {
	What, Form string
	Bytes      int
}

// The forms in which an API server sends an object.
const (
	formProto    = "application/vnd.kubernetes.protobuf"
	formJSON     = "application/json"
	formMetadata = formProto + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	formTable    = formJSON + ";as=Table;g=meta.k8s.io;v=v1"
)

// sizes measures objects as the API server sends them.
func (b *apiBackend) sizes(ctx context.Context, w *world) ([]size, error) {
	slice := newSlice()
	slices := b.client.DiscoveryV1().EndpointSlices(slice.Namespace)
	if _, err := slices.Create(ctx, slice, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	defer func() { _ = slices.Delete(ctx, slice.Name, metav1.DeleteOptions{}) }()
	core, pod := b.client.CoreV1().RESTClient(), w.target
	podPath := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s", pod.Namespace, pod.Name)
	var list []size
	for _, o := range []struct{ what, path string }{
		{"Pod", podPath},
		{"Node with 30 images", "/api/v1/nodes/" + nodeName(0)},
		{"Namespace", "/api/v1/namespaces/" + w.batch.Name},
		{"EndpointSlice of 100 endpoints", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/" + slice.Name},
		{"NetworkPolicy", fmt.Sprintf("/apis/networking.k8s.io/v1/namespaces/%s/networkpolicies/%s",
			w.edited.Namespace, w.edited.Name)},
	} {
		for _, f := range []struct{ name, accept string }{
			{"protobuf", formProto},
			{"JSON", formJSON},
			{"protobuf, metadata only", formMetadata},
			{"JSON, Table with metadata", formTable},
		} {
			data, err := get(ctx, core, o.path, f.accept)
			if err != nil {
				return nil, fmt.Errorf("%s as %s: %w", o.what, f.name, err)
			}
			list = append(list, size{o.what, f.name, len(data)})
		}
	}
	return b.reduced(ctx, pod, list)
}

// get returns an object as the server sends it.
func get(ctx context.Context, c rest.Interface, path, accept string) ([]byte, error) {
	return c.Get().AbsPath(path).SetHeader("Accept", accept).Do(ctx).Raw()
}

// reduced adds the sizes in protobuf of a pod with fewer fields, which no request can select.
func (b *apiBackend) reduced(ctx context.Context, pod *corev1.Pod, list []size) ([]size, error) {
	full, err := b.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	add := func(form string, p *corev1.Pod) { list = append(list, size{"Pod", form, p.Size()}) }
	zipped, err := compressed(full)
	if err != nil {
		return nil, err
	}
	list = append(list, size{"Pod", "protobuf, gzip", zipped})
	p := full.DeepCopy()
	add("protobuf, without envelope", p)
	p.ManagedFields = nil
	add("protobuf, no managedFields", p)
	p.Annotations = nil
	add("protobuf, no managedFields or annotations", p)
	p.Spec.Volumes, p.Spec.Containers[0].Env = nil, nil
	p.Spec.Containers[0].LivenessProbe, p.Spec.Containers[0].ReadinessProbe = nil, nil
	p.Spec.Containers[0].VolumeMounts = nil
	p.Status.Conditions, p.Status.ContainerStatuses = nil, nil
	add("protobuf, also no env, volumes, probes, conditions, container states", p)
	p = full.DeepCopy()
	used := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Labels: p.Labels,
		},
		Spec: corev1.PodSpec{
			NodeName: p.Spec.NodeName, ServiceAccountName: p.Spec.ServiceAccountName,
			Containers: []corev1.Container{{Name: p.Spec.Containers[0].Name, Ports: p.Spec.Containers[0].Ports}},
		},
		Status: corev1.PodStatus{Phase: p.Status.Phase, PodIPs: p.Status.PodIPs},
	}
	add("protobuf, only what the Source uses", used)
	return list, nil
}

// compressed returns the size of a pod after gzip.
func compressed(p *corev1.Pod) (int, error) {
	data, err := p.Marshal()
	if err != nil {
		return 0, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return out.Len(), err
}
