// SPDX-License-Identifier: Apache-2.0

package datastore

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/wayleave/wayleave/policy"
)

// ConflictError tells of an object that is in several files, or several times in one. The
// file that is reported with the error has no say in it.
//
// It is a plain value, safe for concurrent reading.
type ConflictError struct {
	// Key of the object.
	Key policy.Key
	// File whose version counts, without its directory.
	File string
}

// Error names the object and the file whose version counts.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("datastore: %s is already in %s", e.Key, e.File)
}

// catalog knows what is in which file, and works out what to tell the receiver. It does no I/O.
type catalog struct {
	rejected func(file string, err error)
	files    map[string]map[policy.Key]policy.Resource
	holders  map[policy.Key][]string            // files that hold the object, in order: the first counts
	changed  map[policy.Key]struct{}            // since the last flush
	accused  map[policy.Key]map[string]struct{} // conflicts already reported: files that do not count
	told     map[policy.Key]policy.Resource     // what the receiver knows
}

func newCatalog(rejected func(file string, err error)) *catalog {
	return &catalog{
		rejected: rejected,
		files:    map[string]map[policy.Key]policy.Resource{},
		holders:  map[policy.Key][]string{},
		changed:  map[policy.Key]struct{}{},
		accused:  map[policy.Key]map[string]struct{}{},
		told:     map[policy.Key]policy.Resource{},
	}
}

// set takes in what a file now holds; nothing, where it is gone or cannot be read.
func (c *catalog) set(file string, resources []policy.Resource) {
	c.remove(file)
	content := map[policy.Key]policy.Resource{}
	for _, r := range resources {
		if absent(r) {
			c.rejected(file, errors.New("datastore: decoded to nothing"))
			continue
		}
		key := r.Key()
		if _, twice := content[key]; twice {
			c.rejected(file, &ConflictError{Key: key, File: file})
			continue
		}
		content[key] = r
		c.changed[key] = struct{}{}
		at, _ := slices.BinarySearch(c.holders[key], file)
		c.holders[key] = slices.Insert(c.holders[key], at, file)
	}
	if len(content) > 0 {
		c.files[file] = content
	}
}

func (c *catalog) remove(file string) {
	for key := range c.files[file] {
		c.changed[key] = struct{}{}
		at, _ := slices.BinarySearch(c.holders[key], file)
		c.holders[key] = slices.Delete(c.holders[key], at, at+1)
		if len(c.holders[key]) == 0 {
			delete(c.holders, key)
		}
		delete(c.accused[key], file)
	}
	delete(c.files, file)
}

// flush reports new conflicts and returns what the receiver does not know yet, both sorted by key.
func (c *catalog) flush() []policy.Update {
	var updates []policy.Update
	for _, key := range slices.SortedFunc(maps.Keys(c.changed), policy.Key.Compare) {
		c.accuse(key)
		u := policy.Update{Key: key}
		if holders := c.holders[key]; len(holders) > 0 {
			u.Resource = c.files[holders[0]][key]
		}
		if !policy.Equal(c.told[key], u.Resource) {
			note(c.told, u)
			updates = append(updates, u)
		}
	}
	clear(c.changed)
	return updates
}

// accuse reports the files that hold the object without a say in it, unless it did so
// before.
func (c *catalog) accuse(key policy.Key) {
	holders := c.holders[key]
	if len(holders) < 2 {
		delete(c.accused, key)
		return
	}
	accused := map[string]struct{}{}
	for _, file := range holders[1:] {
		accused[file] = struct{}{}
		if _, before := c.accused[key][file]; !before {
			c.rejected(file, &ConflictError{Key: key, File: holders[0]})
		}
	}
	c.accused[key] = accused
}
