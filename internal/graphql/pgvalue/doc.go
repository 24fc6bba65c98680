// Package pgvalue carries single values between PostgreSQL and JSON: leaves and arrays of leaves on the way out, everything
// on the way in.
//
// It refuses to know fields and selections: composites, ranges, intervals and shapes that come out are objects, whose fields were
// selected, and belong to sqlgen. Outgoing values are in PostgreSQL's binary format, or text where Out.SQL casts; incoming
// ones are always in text format, the only one that every type has.
//
// Binary is used where the value does not depend on the session (numbers, dates, timestamps without zone, UUIDs): it is
// shorter to send and cheaper to read. What depends on the session's zone or has many spellings is cast to text, so that
// PostgreSQL's own output is what clients see, and only its punctuation is changed here.
package pgvalue
