// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newPod returns a pod of the size that a Deployment's pods have. The pod has one container with
// variables, probes and volumes, a token, and the status that kubelet writes.
func newPod(namespace, name, app, node string, address netip.Addr) *corev1.Pod {
	owner, mode := true, int32(420)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, GenerateName: app + "-7c9d8b6f5c-",
			Labels: map[string]string{
				"app": app, "pod-template-hash": "7c9d8b6f5c", "version": "v1",
				"app.kubernetes.io/name": app, "app.kubernetes.io/managed-by": "Helm",
			},
			Annotations: map[string]string{
				"kubectl.kubernetes.io/restartedAt": "2026-11-24T10:00:00Z",
				"prometheus.io/scrape":              "true", "prometheus.io/port": "9090",
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-7c9d8b6f5c",
				UID: "6a1c7bd2-6a5d-4c36-9a7f-0f7f8a3a3c11", Controller: &owner, BlockOwnerDeletion: &owner,
			}},
		},
		Spec: corev1.PodSpec{
			NodeName: node, ServiceAccountName: "default",
			Volumes: []corev1.Volume{
				{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
					LocalObjectReference: corev1.LocalObjectReference{Name: app + "-config"}, DefaultMode: &mode,
				}}},
				{Name: "kube-api-access-x7k2p", VolumeSource: corev1.VolumeSource{Projected: newToken(&mode)}},
			},
			Containers: []corev1.Container{newContainer(app)},
		},
	}
	p.Status = podStatus(app, node, address)
	return p
}

// newToken returns the volume with the token of the service account, as admission adds it.
func newToken(mode *int32) *corev1.ProjectedVolumeSource {
	expires := int64(3607)
	return &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &expires, Path: "token"}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path: "namespace", FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
		}}}},
	}}
}

func newContainer(app string) corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{PeriodSeconds: 10, ProbeHandler: corev1.ProbeHandler{
			HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("http"), Scheme: corev1.URISchemeHTTP},
		}}
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
	}
	c := corev1.Container{
		Name: app, Image: "registry.example.com/shop/" + app + ":1.24.3",
		Args: []string{"--listen=:8080", "--metrics=:9090", "--log-format=json"},
		Ports: []corev1.ContainerPort{
			{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP},
			{Name: "metrics", ContainerPort: 9090, Protocol: corev1.ProtocolTCP},
		},
		Resources:     corev1.ResourceRequirements{Limits: list, Requests: list},
		LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/" + app, ReadOnly: true},
			{
				Name: "kube-api-access-x7k2p", MountPath: "/var/run/secrets/kubernetes.io/serviceaccount",
				ReadOnly: true,
			},
		},
	}
	for i := range 8 {
		c.Env = append(c.Env, corev1.EnvVar{
			Name:  fmt.Sprintf("SHOP_SETTING_%d", i),
			Value: fmt.Sprintf("http://service-%d.shop.svc.cluster.local:8080", i),
		})
	}
	return c
}

// podStatus returns the status of a running pod.
func podStatus(app, node string, address netip.Addr) corev1.PodStatus {
	at, ready := metav1.NewTime(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC)), true
	s := corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: address.String(), PodIPs: []corev1.PodIP{{IP: address.String()}},
		HostIP: "192.0.2.17", HostIPs: []corev1.HostIP{{IP: "192.0.2.17"}}, StartTime: &at,
		QOSClass: corev1.PodQOSGuaranteed,
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: app, Ready: true, Started: &ready, Image: "registry.example.com/shop/" + app + ":1.24.3",
			ImageID:     "registry.example.com/shop/" + app + "@sha256:" + digest,
			ContainerID: "containerd://" + digest,
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		}},
	}
	for _, kind := range []corev1.PodConditionType{
		"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady,
		corev1.PodScheduled,
	} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: at,
		})
	}
	return s
}

const digest = "4bcff63911fcb4448bd4fdacec207030997caf25e9bea4045fa6c8c44de311d1"

// newClusterNode returns a Node with conditions and 30 images. Kubelet lists up to 50.
func newClusterNode(i int) *corev1.Node {
	at := metav1.NewTime(time.Date(2026, 11, 24, 10, 0, 0, 0, time.UTC))
	name := nodeName(i)
	cidr := fmt.Sprintf("172.%d.%d.0/24", 16+i>>8, i&255)
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux",
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%d", i%3), corev1.LabelInstanceTypeStable: "standard-8",
		}},
		Spec: corev1.NodeSpec{PodCIDR: cidr, PodCIDRs: []string{cidr}, ProviderID: "cloud:///zone/" + name},
	}
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	n.Status = corev1.NodeStatus{
		Capacity: list, Allocatable: list,
		Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("192.168.%d.%d", i>>8, i&255)},
			{Type: corev1.NodeHostName, Address: name},
		},
		NodeInfo: corev1.NodeSystemInfo{
			MachineID: digest[:32], SystemUUID: digest[:36], BootID: digest[:36], KernelVersion: "6.18.0",
			OSImage: "Debian GNU/Linux 13 (trixie)", ContainerRuntimeVersion: "containerd://2.1.0",
			KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64",
		},
	}
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady,
	} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: corev1.ConditionFalse, LastHeartbeatTime: at, LastTransitionTime: at,
			Reason: "KubeletHasNoProblem", Message: "kubelet has sufficient memory available",
		})
	}
	for j := range 30 {
		image := fmt.Sprintf("registry.example.com/shop/image-%d", j)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{
			Names: []string{image + "@sha256:" + digest, image + ":1.24.3"}, SizeBytes: 100 << 20,
		})
	}
	return n
}

// newSlice returns an EndpointSlice of the largest size that the controller makes: 100 endpoints.
func newSlice() *discoveryv1.EndpointSlice {
	yes, name, port, protocol := true, "http", int32(8080), corev1.ProtocolTCP
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app-0-x7k2p", Labels: map[string]string{
			discoveryv1.LabelServiceName: "app-0", discoveryv1.LabelManagedBy: "endpointslice-controller.k8s.io",
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for i := range 100 {
		node, zone := nodeName(i), fmt.Sprintf("zone-%d", i%3)
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{podAddress(i).String()}, NodeName: &node, Zone: &zone,
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes},
			TargetRef: &corev1.ObjectReference{
				Kind: "Pod", Namespace: "shop-00000", Name: fmt.Sprintf("app-0-7c9d8b6f5c-%05d", i),
				UID: "6a1c7bd2-6a5d-4c36-9a7f-0f7f8a3a3c11",
			},
		})
	}
	return s
}
