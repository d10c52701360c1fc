// Shell snippets that submit this job. The line that ends a here-document cannot occur in JSON, so nothing in
// the job can reach the shell. They never contain the token.
export const SNIPPETS = {
  barker: {
    name: "barker",
    text: (json, origin) => `export BARKER_URL=${origin} BARKER_TOKEN=bk_...   # not needed on the server itself
barker submit - --wait <<'EOF'
${json}
EOF`,
  },
  curl: {
    name: "curl",
    text: (json, origin) => `export BARKER_TOKEN=bk_...   # your token
curl -sS ${origin}/v1/jobs -H "Authorization: Bearer $BARKER_TOKEN" \\
  -H "Content-Type: application/json" --data-binary @- <<'EOF'
${json}
EOF`,
  },
};
