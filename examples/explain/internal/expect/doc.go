// SPDX-License-Identifier: Apache-2.0

// Package expect reads a file of expectations: which flows must be allowed, and which must be
// denied.
//
//	expect:
//	- from: shop/web-*          # one, or a list
//	  to: [shop/api, shop/db]
//	  port: tcp/8080            # one, or a list
//	  allow: true
//	- name: no other client reads the database   # optional, for the report
//	  from: 198.51.100.7
//	  to: shop/db
//	  port: [tcp/postgres, icmp]
//	  allow: false
//
// Parties and ports have the syntax of package probe.
//
// # Usage
//
//	list, err := expect.Parse("expect.yaml", data)
//
// # Concurrency
//
// Parse may be called from any goroutine.
//
// # Errors
//
// Nothing in the file is ignored: unknown fields, duplicate keys, missing fields, empty lists and a
// file without expectations are errors, with their lines. If the file has the right structure,
// Parse reports all errors together.
package expect
