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
// The values of from, to and port have the syntax that package policy/probe describes.
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
// Unknown fields, duplicate keys, missing fields, empty lists and a file without expectations are
// errors. Each error has its line in the file. If the file has the right structure, Parse reports
// all errors together.
package expect
