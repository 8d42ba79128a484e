// SPDX-License-Identifier: Apache-2.0

package ruleset

// parseFlowtable reads a flowtable. It must have a hook. It need not have devices: after all
// devices are removed, nft lists no line for them.
func parseFlowtable(p *parser) *Flowtable {
	p.next()
	start, hooked := p.tok, false
	f := &Flowtable{Name: p.name("flowtable")}
	p.block(func() {
		switch word := p.tok; {
		case p.accept("hook"):
			if hooked {
				p.fail(word, "the flowtable has a hook already")
			}
			hooked = true
			p.want("ingress")
			p.want("priority")
			f.Priority = parseIngressPriority(p)
		case p.accept("devices"):
			if f.Devices != nil {
				p.fail(word, "the flowtable has devices already")
			}
			p.want("=")
			f.Devices = parseDevices(p)
		case p.accept("counter"):
			if f.Counter {
				p.fail(word, "the flowtable has a counter already")
			}
			f.Counter = true
		default:
			p.fail(word, "a flowtable of the model has no such property")
		}
	})
	if !hooked {
		p.fail(start, "a flowtable without a hook")
	}
	return f
}

// parseIngressPriority reads a priority in the ingress hook of devices. nft has one name for such
// priorities: filter is zero in all families.
func parseIngressPriority(p *parser) int {
	if p.tok.kind == tokenWord && isLetter(p.tok.text[0]) && !p.is("filter") {
		p.fail(p.tok, "want a priority: a number, or filter with a number added or subtracted")
	}
	return p.priority(FamilyINet)
}

// parseDevices reads one or more names of interfaces in braces. nft 1.1 lists them in quotation
// marks.
func parseDevices(p *parser) (names []string) {
	p.want("{")
	for len(names) == 0 || !p.accept("}") {
		at := p.tok
		if at.kind != tokenString {
			p.word("the name of an interface")
		} else {
			p.next()
		}
		if p.err == nil && !ValidIfname(at.text) {
			p.fail(at, "not the name of an interface")
		}
		names = append(names, at.text)
		if !p.accept(",") && !p.is("}") {
			p.fail(p.tok, `want "," or "}"`)
			return nil
		}
	}
	return names
}
