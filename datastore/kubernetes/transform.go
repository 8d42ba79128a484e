// SPDX-License-Identifier: Apache-2.0

package kubernetes

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Transform removes the fields of an object that the Source does not use, before an informer stores
// the object. Give Transform to informers.WithTransform. If you use another transform, it must keep
// at least the same fields. Transform changes the given object, and returns it.
//
//   - Pod: it keeps metadata (without owners and finalizers), the node's name, the service account,
//     phase, addresses, and whether the Pod has host networking. Of each container with ports, it
//     keeps the name, the ports and the restart policy.
//   - Node: of the status, it keeps only the addresses.
//   - ServiceAccount: it removes the secrets.
//   - EndpointSlice: of the endpoints, it keeps only addresses and conditions.
//   - Every object: it removes the managed fields.
func Transform(object any) (any, error) {
	if o, ok := object.(metav1.Object); ok {
		o.SetManagedFields(nil)
	}
	switch o := object.(type) {
	case *corev1.Pod:
		transformPod(o)
	case *corev1.Node:
		o.Status = corev1.NodeStatus{Addresses: o.Status.Addresses}
	case *corev1.ServiceAccount:
		o.Secrets, o.ImagePullSecrets = nil, nil
	case *discoveryv1.EndpointSlice:
		for i := range o.Endpoints {
			e := &o.Endpoints[i]
			o.Endpoints[i] = discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions}
		}
	}
	return object, nil
}

func transformPod(pod *corev1.Pod) {
	spec, status := pod.Spec, pod.Status
	pod.OwnerReferences, pod.Finalizers = nil, nil
	pod.Spec = corev1.PodSpec{
		NodeName: spec.NodeName, HostNetwork: spec.HostNetwork, ServiceAccountName: spec.ServiceAccountName,
		Containers: portsOf(spec.Containers), InitContainers: portsOf(spec.InitContainers),
	}
	pod.Status = corev1.PodStatus{Phase: status.Phase, PodIP: status.PodIP, PodIPs: status.PodIPs}
}

// portsOf returns the containers that have ports. It keeps only their names, ports and restart
// policies.
func portsOf(containers []corev1.Container) (with []corev1.Container) {
	for _, c := range containers {
		if len(c.Ports) > 0 {
			with = append(with, corev1.Container{Name: c.Name, Ports: c.Ports, RestartPolicy: c.RestartPolicy})
		}
	}
	return with
}
