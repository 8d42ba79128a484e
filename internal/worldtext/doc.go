// SPDX-License-Identifier: Apache-2.0

// Package worldtext reads resources from a short text, for the scripts of tests.
//
// A line "kind name key value ..." is one object. An indented line is a rule of the object above
// it. Values with spaces are in backquotes. In these examples, parts in brackets are optional, and
// parts in parentheses are remarks:
//
//	tier sec order 10 default Pass
//	policy shop/web tier sec order 10 types Ingress select `app == "web"`
//	  (also staged, always, forward, untracked and prednat, on the same line)
//	  ingress Allow proto TCP src `role == "fe"` dst.ports 80,http
//	  egress Deny dst.nets 10.0.0.0/8
//	  ingress Deny proto ICMP icmp 3/4
//	  (also notproto, noticmp, and ip 4 or ip 6 for the IP version)
//	  ingress Allow proto UDP dscp 46,10 (or another field of policy.HeaderMatch)
//	profile prod labels env=prod
//	endpoint shop/web1 addrs 10.0.0.1,fd00::1 labels app=web profiles prod ports http=TCP:80 [node n2] [down]
//	  (also natips 192.0.2.1=10.0.0.1 and sources 10.7.0.0/16)
//	hostep eth0 interface eth0 addrs 192.168.0.1 labels role=host profiles prod ports ssh=TCP:22 [node n2]
//	service shop/web-1 of web addrs 10.0.0.1 serves TCP:80,UDP:53
//	netset bad labels role=bad nets 10.9.0.0/16
//	pool p cidr 10.0.0.0/16 [nat] [disabled]
//	  (also the modes of encapsulation: see object.go)
//	block 10.0.1.0/29 [node n2] [borrowed 10.0.1.2=n3,10.0.1.3=n1]
//	node n2 addrs 192.168.0.2/24,fd00::2 [labels a=b]
//	  (also the ends of tunnels: see object.go)
//	delete Policy/shop/web
//	insync
//
// These keys limit a rule's source: src (a selector), src.not, src.ns, src.nets, src.notnets,
// src.ports, src.notports, src.sa and src.svc (a service's name, or namespace/name). The same keys
// with dst instead of src limit its destination. The action "-" means no action. Parse accepts the
// port 0, although a resource with it is invalid. The interface of an endpoint is "wl" followed by
// the endpoint's name. If a line has no node, the endpoint is on the node whose name is the
// constant Node.
//
// # Usage
//
//	updates, synced, err := worldtext.Parse(text)
//
// # Concurrency
//
// Parse is safe for concurrent use. Its result belongs to the caller.
//
// # Errors
//
// The error of a line that cannot be parsed has the number of the line. Resources are not
// validated.
package worldtext
