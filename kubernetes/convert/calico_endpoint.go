// SPDX-License-Identifier: Apache-2.0

package convert

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/wayleave/wayleave/kubernetes/convert/calico"
	"github.com/wayleave/wayleave/policy"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// CalicoHostEndpoint converts a Calico HostEndpoint to a host endpoint. Reserved labels (see the
// package comment) are left out and reported. If there is any other error, there is no endpoint.
// Every error is an *Error.
func (c Converter) CalicoHostEndpoint(h *calico.HostEndpoint) (*policy.HostEndpoint, []error) {
	p, _ := begin(calico.APIVersion, "HostEndpoint", h, false)
	out := &policy.HostEndpoint{
		Name:          h.Name,
		Node:          h.Spec.Node,
		InterfaceName: h.Spec.InterfaceName,
		Labels:        ownLabels(p, h.Labels),
		Profiles:      slices.Clone(h.Spec.Profiles),
	}
	for i, text := range h.Spec.ExpectedIPs {
		out.ExpectedIPs = appendAddress(p, out.ExpectedIPs, fmt.Sprintf("spec.expectedIPs[%d]", i), text)
	}
	for i, port := range h.Spec.Ports {
		out.Ports = appendCalicoPort(p, out.Ports, fmt.Sprintf("spec.ports[%d]", i), port.Name, port.Protocol,
			port.Port)
	}
	return finish(out, p, inSpec())
}

// CalicoWorkloadEndpoint converts a Calico WorkloadEndpoint to a workload endpoint.
//
// The endpoint gets the labels that Calico derives from the spec: projectcalico.org/orchestrator
// and .../serviceaccount. The endpoint of a pod also gets labels with the names of its namespace
// and service account, like an endpoint that Pod returns.
//
// Of the reserved labels (see the package comment), the object itself may have
// projectcalico.org/namespace, .../orchestrator and .../serviceaccount. If the value of such a
// label differs from the object's namespace or spec, the label is left out and reported. All other
// reserved labels are always left out and reported. If there is any other error, there is no
// endpoint.
//
// A port without a name only describes a host port. Host ports have no effect, so it is left out.
// Every error is an *Error.
func (c Converter) CalicoWorkloadEndpoint(w *calico.WorkloadEndpoint) (*policy.WorkloadEndpoint, []error) {
	p, namespace := begin(calico.APIVersion, "WorkloadEndpoint", w, true)
	out := &policy.WorkloadEndpoint{
		Namespace: namespace,
		Name:      w.Name,
		Node:      w.Spec.Node,
		Interface: w.Spec.InterfaceName,
		Labels:    workloadLabels(p, w, namespace),
		Profiles:  slices.Clone(w.Spec.Profiles),

		AllowSpoofedSourcePrefixes: calicoNets(p, "spec.allowSpoofedSourcePrefixes", w.Spec.AllowSpoofedSourcePrefixes),
	}
	for i, text := range w.Spec.IPNetworks {
		out.Addresses = appendFullLength(p, out.Addresses, fmt.Sprintf("spec.ipNetworks[%d]", i), text)
	}
	for i, nat := range w.Spec.IPNATs {
		path := fmt.Sprintf("spec.ipNATs[%d]", i)
		out.IPNATs = append(out.IPNATs, policy.IPNAT{
			InternalIP: parseAddress(p, path+".internalIP", nat.InternalIP),
			ExternalIP: parseAddress(p, path+".externalIP", nat.ExternalIP),
		})
	}
	if w.Spec.MAC != "" {
		out.MAC = parseMAC(p, "spec.mac", w.Spec.MAC)
	}
	for i, port := range w.Spec.Ports {
		if port.Name != "" {
			out.Ports = appendCalicoPort(p, out.Ports, fmt.Sprintf("spec.ports[%d]", i), port.Name, port.Protocol,
				port.Port)
		}
	}
	return finish(out, p, renamed("name", "metadata.name", "namespace", "metadata.namespace", "labels",
		"metadata.labels", "interface", "spec.interfaceName", "addresses", "spec.ipNetworks", "", "spec."))
}

// workloadLabels returns the labels of the endpoint, including those that are derived from the
// spec.
func workloadLabels(p *problems, w *calico.WorkloadEndpoint, namespace string) map[string]string {
	derived := map[string]string{policy.LabelNamespace: namespace}
	for label, value := range map[string]string{
		labelOrchestrator: w.Spec.Orchestrator, policy.LabelServiceAccount: w.Spec.ServiceAccountName,
	} {
		if value == "" {
			value = w.Labels[label] // the spec does not define this label
		}
		if value != "" {
			derived[label] = value
		}
	}
	given := cloneLabels(w.Labels)
	for label, value := range derived {
		if given[label] == value { // the same as Calico derives
			delete(given, label)
		}
	}
	labels := cloneLabels(ownLabels(p, given))
	_, hadNamespace := w.Labels[policy.LabelNamespace]
	for label, value := range derived {
		if label != policy.LabelNamespace || hadNamespace {
			labels[label] = value
		}
	}
	if labels[labelOrchestrator] == kubernetes {
		labelNames(labels, namespace, labels[policy.LabelServiceAccount])
	}
	return labels
}

// appendFullLength appends an address with or without its full prefix length.
func appendFullLength(p *problems, list []netip.Addr, path, text string) []netip.Addr {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return appendAddress(p, list, path, text)
	case !prefix.IsSingleIP():
		p.addf(path, "%s has more than one address", prefix)
		return list
	}
	return appendAddress(p, list, path, prefix.Addr().String())
}

// appendCalicoPort appends a named port.
func appendCalicoPort(
	p *problems, list []policy.EndpointPort, path, name string, protocol intstr.IntOrString, number int,
) []policy.EndpointPort {
	if number < 1 || number > 65535 {
		p.addf(path+".port", "%d is not a port: ports are 1 to 65535", number)
		return list
	}
	port := policy.EndpointPort{
		Name: name, Protocol: calicoProtocol(p, path+".protocol", &protocol), Port: uint16(number),
	}
	if slices.Contains(list, port) {
		return list
	}
	return append(list, port)
}
