// SPDX-License-Identifier: Apache-2.0

// Package expect reads a file of expectations: who may talk to whom, and who may not.
//
//	expect:
//	- from: shop/web-*          # one, or a list
//	  to: [shop/api, shop/db]
//	  port: tcp/8080            # one, or a list
//	  allow: true
//	- name: nobody else reads the database   # optional, for the report
//	  from: 198.51.100.7
//	  to: shop/db
//	  port: [tcp/postgres, icmp]
//	  allow: false
//
// Parties and ports are written as package probe reads them.
//
// # Usage
//
//	list, err := expect.Parse("expect.yaml", data)
//
// # Concurrency
//
// Expectations are plain values.
//
// # Errors
//
// A file of expectations is a promise, so nothing in it is skipped: unknown fields, keys that are
// given twice, fields that are missing, empty lists and a file without expectations are errors,
// with their lines. Where the file has the right form, Parse reports all that is wrong together.
package expect
