// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/wayleave/wayleave/policy"
	corev1 "k8s.io/api/core/v1"
)

// defaultServiceAccount is the default of the API server.
const defaultServiceAccount = "default"

// Pod converts a pod to a workload endpoint. It returns nil without an error if the pod is on the
// host's network or has ended (succeeded or failed). Without Converter.AssumeNetwork, it also
// returns nil if the pod is not scheduled or has no address. Converter.Attachment can give the
// interface, the MAC address and the addresses of the pod. With TrustAnnotations, annotations of
// the pod take precedence over the Attachment.
//
// A reserved label (see the package comment), an invalid address or named port, and an invalid
// annotation are reported and left out. The rest of the pod is still converted. If the whole pod
// were left out, rules that deny it as a peer would not match its packets. Every error is an
// *Error.
func (c Converter) Pod(pod *corev1.Pod) (*policy.WorkloadEndpoint, []error) {
	var known Attachment
	if c.Attachment != nil {
		known = c.Attachment(pod)
	}
	if !c.hasNetwork(pod, known) {
		return nil, nil
	}
	p, namespace := begin(coreVersion, "Pod", pod, true)
	checkLabels(p, pod.Labels)
	endpoint := &policy.WorkloadEndpoint{
		Namespace: namespace,
		Name:      pod.Name,
		Node:      c.nodeName(pod),
		Interface: cmp.Or(known.Interface, InterfaceName(namespace, pod.Name)),
		MAC:       known.MAC,
		Addresses: podAddresses(p, pod, known),
		Labels:    podLabels(p, pod, namespace),
		Ports:     podPorts(p, pod),
		Profiles:  []string{namespaceProfilePrefix + namespace, serviceAccountProfile(namespace, serviceAccount(pod))},
	}
	if c.TrustAnnotations {
		c.annotate(p, endpoint, pod.Annotations)
	}
	return finish(endpoint, p, renamed("name", "metadata.name", "namespace", "metadata.namespace", "node",
		"spec.nodeName", "profiles[0]", "metadata.namespace", "profiles[1]", "spec.serviceAccountName", "interface",
		annotationPath(AnnotationInterface), "mac", annotationPath(AnnotationMAC),
		"addresses", "status.podIPs", "labels", "metadata.labels", "ports", "spec.containers[*].ports"))
}

// hasNetwork reports whether the pod has an interface and an address, or is assumed to have them.
func (c Converter) hasNetwork(pod *corev1.Pod, known Attachment) bool {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.Spec.HostNetwork || finished {
		return false
	}
	hasAddress := hasStatusAddress(pod) || len(known.Addresses) > 0
	return c.AssumeNetwork || pod.Spec.NodeName != "" && hasAddress
}

// nodeName returns the pod's node, or AssumedNode.
func (c Converter) nodeName(pod *corev1.Pod) string {
	if pod.Spec.NodeName == "" && c.AssumeNetwork {
		return AssumedNode
	}
	return pod.Spec.NodeName
}

// hasStatusAddress reports whether the pod's status has addresses.
func hasStatusAddress(pod *corev1.Pod) bool {
	return len(pod.Status.PodIPs) > 0 || pod.Status.PodIP != ""
}

// annotate applies the annotations of a trusted pod.
func (c Converter) annotate(p *problems, endpoint *policy.WorkloadEndpoint, annotations map[string]string) {
	if name, ok := annotations[AnnotationInterface]; ok {
		probe := probeEndpoint()
		if probe.Interface = name; probe.Validate() == nil {
			endpoint.Interface = name
		} else {
			p.warn(annotationPath(AnnotationInterface), refusal(probe))
		}
	}
	if text, ok := annotations[AnnotationMAC]; ok {
		wrong := &problems{object: p.object}
		probe := probeEndpoint()
		probe.MAC = parseMAC(wrong, annotationPath(AnnotationMAC), text)
		switch err := refusal(probe); {
		case wrong.any():
			p.warnings = append(p.warnings, wrong.list...)
		case err != nil:
			p.warn(annotationPath(AnnotationMAC), err)
		default:
			endpoint.MAC = probe.MAC
		}
	}
}

// probeEndpoint returns a valid endpoint, to validate one field of another endpoint in it.
func probeEndpoint() *policy.WorkloadEndpoint {
	return &policy.WorkloadEndpoint{Namespace: "probe", Name: "probe", Node: "probe", Interface: "probe"}
}

// parseMAC returns a MAC address in its canonical form.
func parseMAC(p *problems, path, text string) string {
	mac, err := net.ParseMAC(text)
	if err != nil || len(mac) != 6 {
		p.addf(path, "%q is not a MAC address of 6 bytes", text)
		return ""
	}
	return mac.String()
}

func annotationPath(key string) string { return "metadata.annotations[" + strconv.Quote(key) + "]" }

// maxPodAddresses and maxPodPorts are limits for each pod. Addresses and ports over the limit are
// left out.
const (
	maxPodAddresses = 256
	maxPodPorts     = 10_000
)

// podAddresses returns the pod's valid addresses of both families. They are the addresses of the
// status if the status has all addresses of the attachment. Otherwise, they are the addresses of
// the attachment.
func podAddresses(p *problems, pod *corev1.Pod, known Attachment) []netip.Addr {
	if !hasStatusAddress(pod) {
		return slices.Clone(known.Addresses)
	}
	status := &problems{object: p.object}
	addresses := statusAddresses(status, pod)
	for _, a := range known.Addresses {
		if !slices.Contains(addresses, a) {
			p.warnings = append(p.warnings, status.all()...)
			return slices.Clone(known.Addresses)
		}
	}
	p.list, p.warnings = append(p.list, status.list...), append(p.warnings, status.warnings...)
	return addresses
}

// statusAddresses returns the valid addresses of the pod's status. If there are none, it reports an
// error that refuses the pod.
func statusAddresses(p *problems, pod *corev1.Pod) []netip.Addr {
	ips, field := pod.Status.PodIPs, func(i int) string { return fmt.Sprintf("status.podIPs[%d].ip", i) }
	if len(ips) == 0 {
		ips, field = []corev1.PodIP{{IP: pod.Status.PodIP}}, func(int) string { return "status.podIP" }
	}
	wrong := &problems{object: p.object}
	var addresses []netip.Addr
	for i, ip := range ips {
		a := parseAddress(wrong, field(i), ip.IP)
		if !a.IsValid() || slices.Contains(addresses, a) {
			continue
		}
		probe := probeEndpoint()
		probe.Addresses = []netip.Addr{a}
		if err := refusal(probe); err != nil {
			wrong.add(field(i), err)
			continue
		}
		if len(addresses) == maxPodAddresses {
			wrong.addf("status.podIPs", "more than %d addresses: the others are left out", maxPodAddresses)
			break
		}
		addresses = append(addresses, a)
	}
	if len(addresses) == 0 {
		p.list = append(p.list, wrong.list...) // a pod without a valid address is refused
	} else {
		p.warnings = append(p.warnings, wrong.list...)
	}
	return addresses
}

func appendAddress(p *problems, list []netip.Addr, field, text string) []netip.Addr {
	a := parseAddress(p, field, text)
	if !a.IsValid() || slices.Contains(list, a) {
		return list
	}
	return append(list, a)
}

// podLabels returns the pod's own labels, and the labels that every endpoint of a pod has.
func podLabels(p *problems, pod *corev1.Pod, namespace string) map[string]string {
	labels, account := cloneLabels(ownLabels(p, pod.Labels)), serviceAccount(pod)
	labels[labelOrchestrator] = kubernetes
	labels[policy.LabelServiceAccount] = account
	labelNames(labels, namespace, account)
	return labels
}

// serviceAccount returns the name of the pod's service account.
func serviceAccount(pod *corev1.Pod) string {
	return cmp.Or(pod.Spec.ServiceAccountName, defaultServiceAccount)
}

// podPorts returns the named ports of the containers that run as long as the pod: ordinary
// containers and sidecars. Sidecars are init containers that are always restarted.
func podPorts(p *problems, pod *corev1.Pod) []policy.EndpointPort {
	var ports []policy.EndpointPort
	for i, container := range pod.Spec.Containers {
		ports = appendPorts(p, ports, fmt.Sprintf("spec.containers[%d]", i), container.Ports)
	}
	for i, container := range pod.Spec.InitContainers {
		if container.RestartPolicy != nil && *container.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			ports = appendPorts(p, ports, fmt.Sprintf("spec.initContainers[%d]", i), container.Ports)
		}
	}
	return ports
}

func appendPorts(
	p *problems, ports []policy.EndpointPort, path string, list []corev1.ContainerPort,
) []policy.EndpointPort {
	for i, port := range list {
		if port.Name == "" {
			continue
		}
		field := fmt.Sprintf("%s.ports[%d]", path, i)
		protocol, ok := kubernetesProtocol(port.Protocol)
		if !ok {
			p.warnf(field+".protocol", "%q is not TCP, UDP or SCTP", port.Protocol)
			continue
		}
		if port.ContainerPort < 1 || port.ContainerPort > 65535 {
			p.warnf(field+".containerPort", "%d is not a port: ports are 1 to 65535", port.ContainerPort)
			continue
		}
		named := policy.EndpointPort{Name: port.Name, Protocol: protocol, Port: uint16(port.ContainerPort)}
		probe := probeEndpoint()
		probe.Ports = []policy.EndpointPort{named}
		if err := refusal(probe); err != nil {
			p.warn(field+".name", err)
			continue
		}
		if slices.Contains(ports, named) {
			continue
		}
		if len(ports) == maxPodPorts {
			p.warnf(field, "more than %d named ports: the others are left out", maxPodPorts)
			break
		}
		ports = append(ports, named)
	}
	return ports
}

// kubernetesProtocol parses a protocol of Kubernetes. Empty means TCP.
func kubernetesProtocol(protocol corev1.Protocol) (policy.Protocol, bool) {
	switch protocol {
	case "", corev1.ProtocolTCP:
		return policy.ProtocolTCP, true
	case corev1.ProtocolUDP:
		return policy.ProtocolUDP, true
	case corev1.ProtocolSCTP:
		return policy.ProtocolSCTP, true
	}
	return 0, false
}
