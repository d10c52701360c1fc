// The same job from a shell. A line that ends a here-document cannot be part of JSON, so nothing in
// the job can reach the shell. The token is never among the lines.
export const LINES = {
  barker: {
    name: "barker",
    text: (json, origin) => `export BARKER_URL=${origin} BARKER_TOKEN=bk_...   # not needed on the server itself
barker submit - --wait <<'EOF'
${json}
EOF`,
  },
  curl: {
    name: "curl",
    text: (json, origin) => `export BARKER_TOKEN=bk_...   # yours
curl -sS ${origin}/v1/jobs -H "Authorization: Bearer $BARKER_TOKEN" \\
  -H "Content-Type: application/json" --data-binary @- <<'EOF'
${json}
EOF`,
  },
};
